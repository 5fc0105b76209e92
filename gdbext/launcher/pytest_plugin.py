"""The plugin of pytest: a test that takes too long gets a report of its process, and fails.

It does nothing without ``--gdbext-timeout`` or the marker ``gdbext_timeout``. The report is taken by one process beside
the session (`gdbext.launcher.watching.deadlines`), which is started for the first test that has a limit. pytest imports
this module in every session, so it imports the rest of gdbext only if that is needed.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Generator
from typing import Any

import pytest

_PLUGIN = "gdbext-deadlines"
#: How often the process beside the session interrupts a test, as `deadlines.INTERRUPTS`.
_INTERRUPTS = 2


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("gdbext", "reports on tests that hang")
    group.addoption("--gdbext-timeout", metavar="SECONDS", type=_seconds, default=None,
                    help="report on a test that takes longer, with its set-up and tear-down, and let it fail")
    group.addoption("--gdbext-dir", metavar="DIR", default=None, help="also write each report as a page for browsers")
    group.addoption("--gdbext-exit", action="store_true", default=False,
                    help="end the process of the test and its descendants after the report; with pytest-xdist that is "
                    "the worker. Without this option SIGINT is sent, which native code may never notice")


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, and watch the tests of this process."""
    config.addinivalue_line("markers", "gdbext_timeout(seconds): report on this test if it takes longer, and let it "
                            "fail; 0: no limit")
    runs_elsewhere = not hasattr(config, "workerinput") and config.getoption("dist", "no") != "no"
    if not runs_elsewhere:
        config.pluginmanager.register(_Deadlines(config), _PLUGIN)


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 < value < 1e9:
        raise ValueError(text)
    return value


class _Deadlines:
    """The limits of the tests of one process."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._owner = os.getpid()
        self._process: subprocess.Popen[str] | None = None
        # output is not captured yet
        self._errors = os.dup(2)
        self._number = 0
        #: When the running test must have ended; None if it has no limit, or has been reported on.
        self._deadline: float | None = None
        self._seconds = 0.0
        self._sections: list[str] = []
        self._verdict = ""

    # -- hooks ------------------------------------------------------------------------------------------------

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        self._begin(item)
        try:
            return (yield)
        finally:
            self._end()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self) -> Generator[None, Any, Any]:
        __tracebackhide__ = True
        return (yield from self._watched())

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self) -> Generator[None, Any, Any]:
        __tracebackhide__ = True
        return (yield from self._watched())

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self) -> Generator[None, Any, Any]:
        __tracebackhide__ = True
        return (yield from self._watched())

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        report.sections.extend(("gdbext", text) for text in self._sections)
        self._sections.clear()
        return report

    def pytest_enter_pdb(self) -> None:
        """A person is at work, and needs more time."""
        self._end()

    def pytest_unconfigure(self) -> None:
        """End the process beside the session."""
        os.close(self._errors)
        if self._process is not None and os.getpid() == self._owner:
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            try:
                self._process.stdin.close()
            except OSError:
                pass
            self._process.stdout.close()
            self._process.wait()

    # -- the limit of one test --------------------------------------------------------------------------------

    def _begin(self, item: pytest.Item) -> None:
        marker = item.get_closest_marker("gdbext_timeout")
        seconds = self._config.getoption("gdbext_timeout") if marker is None else _of_marker(marker)
        self._deadline = None
        if not seconds or os.getpid() != self._owner:
            return
        self._seconds = float(seconds)
        self._number += 1
        self._deadline = time.monotonic() + self._seconds
        self._send({"begin": self._number, "deadline": self._deadline, "name": item.nodeid})

    def _watched(self) -> Generator[None, Any, Any]:
        """Run a part of a test; it fails if the limit is reached in it."""
        __tracebackhide__ = True
        try:
            made = yield
        except KeyboardInterrupt as error:
            if self._deadline is None or time.monotonic() < self._deadline or not self._collect(1):
                raise
            raise self._failure() from error
        except BaseException:
            # the test has failed by itself; the report is added
            if self._deadline is not None and time.monotonic() >= self._deadline:
                self._collect(0)
            raise
        if self._deadline is not None and time.monotonic() >= self._deadline and self._collect(0):
            raise self._failure()
        return made

    def _failure(self) -> BaseException:
        return pytest.fail.Exception(f"the test took longer than {self._seconds:g} s{self._verdict} (gdbext)")

    def _collect(self, interrupts: int) -> bool:
        """Take over the report of the test; whether there is one.

        :param interrupts: how often the test has been interrupted already.
        """
        self._deadline = None
        self._send({"end": self._number, "wait": True})
        line = ""
        while True:
            try:
                if not line and self._process is not None and self._process.stdout is not None:
                    line = self._process.stdout.readline()
                answer = json.loads(line or "{}")
                if answer.get("interrupts", 0) > interrupts:
                    time.sleep(1.0)  # a signal may be on its way, if the test has not handled it
                break
            except KeyboardInterrupt:
                interrupts += 1
                if interrupts > _INTERRUPTS:
                    raise
        if answer.get("text") is None:
            return False
        page = f"the page is {answer['page']}\n" if answer["page"] else ""
        self._sections.append(answer["text"] + page)
        self._verdict = f": {answer['verdict']}" if answer["verdict"] else ""
        return True

    def _end(self) -> None:
        if self._deadline is not None:
            self._deadline = None
            self._send({"end": self._number, "wait": False})

    def _send(self, message: dict[str, Any]) -> None:
        if self._process is None:
            self._process = self._start()
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(message) + "\n")
            self._process.stdin.flush()
        except OSError:  # it has ended; the tests go on
            self._deadline = None

    def _start(self) -> subprocess.Popen[str]:
        from gdbext.launcher.watching.helper import start_helper

        folder = self._config.getoption("gdbext_dir")
        return start_helper("gdbext.launcher.watching.deadlines", self._owner,
                            None if folder is None else os.path.abspath(folder),
                            bool(self._config.getoption("gdbext_exit")), stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, stderr=self._errors)


def _of_marker(marker: pytest.Mark) -> float:
    seconds = marker.args[0] if marker.args else marker.kwargs.get("seconds")
    if not isinstance(seconds, (int, float)) or isinstance(seconds, bool) or not 0 <= seconds < 1e9:
        raise pytest.UsageError("gdbext_timeout needs a number of seconds: @pytest.mark.gdbext_timeout(30)")
    return float(seconds)
