"""Shows the GDB sessions of a failed test; makes the folder that the workers share."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Generator
from typing import Any

import pytest

from gdbext.errors import GdbextError
from gdbext.threads import findings
from tests.support import combinations, gdb_session, interpreters

pytest.register_assert_rewrite("tests.support.report")


def pytest_configure(config: pytest.Config) -> None:
    """Make a folder in which the workers of pytest-xdist share what they found out about this machine.

    A mistake in a stage of a snapshot becomes a problem of the report for users. Here it fails the test.
    """
    findings.GUARDED = (GdbextError,)
    config.addinivalue_line("markers", "slow: takes seconds of processor time, so a short run leaves it out")
    config.addinivalue_line("markers", "long: takes a minute of processor time, so only a long run has it")
    if interpreters.SHARED not in os.environ:
        folder = os.environ[interpreters.SHARED] = tempfile.mkdtemp(prefix="gdbext-tests-")
        config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests of a long run, if this is none."""
    left_out = [] if combinations.LONG else [item for item in items if item.get_closest_marker("long") is not None]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Forget the sessions of the test before."""
    gdb_session.recent.clear()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, None]:
    """Add the input and output of GDB to the report of a failure."""
    outcome = yield
    report = outcome.get_result()
    if not report.failed:
        return
    sessions = list(gdb_session.recent)
    # a fixture that several tests share ran its session during the first of them
    for value in getattr(item, "funcargs", {}).values():
        session = getattr(value, "session", None)
        if isinstance(session, gdb_session.Result) and session not in sessions:
            sessions.append(session)
    for session in sessions:
        report.sections.append(("gdb session", str(session)))
