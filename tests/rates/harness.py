"""Runs the programs, and compares the first lines of `gdbext report` with the truth.

A program is a Python script or a C++ source in `programs/hangs` or `programs/healthy`. The text at its top says what it
does, and which public report it is written after, if any. It ends with its truth, a JSON object:

    Truth: {"expect": "hang", "says": "reconnect.*conn_lock", "statuses": [5]}

expect    ``hang``, or ``healthy``
says      of a hang: a regular expression that the first lines of the report match if they name the cause: the thread,
          function, lock, process or path that a person on call needs to know. White space in the report counts as one
          space, capitals do not count
never     of a hang: a regular expression of what would be a false statement about it
statuses  of a hang: the exit statuses that are right: 1 for a proven hang, 5 for a wait for something outside
core      true to report on a core, too
known     the id of the known bug that it is
packages  the Python packages that it needs, by import name; it is run with Python 3.11 of scripts/rates
python    its interpreter, if it needs this one

It prints one JSON line, `{"pid": 1}`, immediately before it hangs, or when it is in its usual state: the process to
report on, which may be a child of the one that was started; or `{"skip": "why it cannot run here"}`. All processes of
its session are killed in the end.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.precision import harness as precision
from tests.support import interpreters, launcher, samples
from tests.support.patience import patience

Json = dict[str, Any]

HERE = Path(__file__).resolve().parent
PROGRAMS = HERE / "programs"
#: The usual interpreter, which GDBEXT_RATES_PYTHON replaces by another one of the tests, and the one of the packages.
PYTHON, WITH_PACKAGES = os.environ.get("GDBEXT_RATES_PYTHON", "debian"), "3.11"
#: The number of lines of a report that a person reads first.
FIRST_LINES = 12
#: A program has settled when its threads have been in the same system calls for so long, or after the longest wait;
#: both in seconds. A report takes a wait of less than a second for one that may end soon.
STILL, LONGEST = 1.3, 1.6
#: The same before a core, which does not record how long a thread has waited.
STILL_BEFORE_CORE = 0.3
#: The number of reports on a healthy process, and the pause between them, in seconds; one report in a short run.
REPORTS, PAUSE = 3, 0.15

RIGHT = "right"
#: A hang that is not right: called healthy; called a deadlock, or proven, which it is not; called a hang whose cause
#: the first lines do not name, or that is not proven where it can be; no verdict.
FALSE_COMFORT, FALSE_DEADLOCK, VAGUE, UNKNOWN = "false comfort", "false deadlock", "vague", "unknown"
#: A healthy program that is not right: called a proven hang; called blocked.
FALSE_ALARM, WEAK_ALARM = "false alarm", "weak false alarm"
OUTCOMES = {
    "hang": (RIGHT, VAGUE, UNKNOWN, FALSE_DEADLOCK, FALSE_COMFORT),
    "healthy": (RIGHT, UNKNOWN, WEAK_ALARM, FALSE_ALARM),
}

_KEYS = {"expect", "says", "never", "statuses", "core", "known", "packages", "python"}


class NotYet(Exception):
    """The answer is wrong as `not_yet.py` says."""


@dataclass(frozen=True)
class Program:
    """A program and its truth."""

    path: Path
    text: str
    expect: str
    says: str
    never: str | None
    statuses: tuple[int, ...]
    core: bool
    known: str | None
    packages: tuple[str, ...]
    python: str

    @property
    def name(self) -> str:
        """The program's name in the tests."""
        return self.path.stem

    @property
    def targets(self) -> tuple[str, ...]:
        """What there is a report on."""
        return ("live", "core") if self.core else ("live",)

    @classmethod
    def read(cls, path: Path) -> Program:
        """Read the text at the top of a program."""
        text = path.read_text(encoding="utf-8")
        text = text.split('"""')[1] if path.suffix == ".py" else text.partition("/*")[2].partition("*/")[0]
        text, _, truth = text.partition("Truth: ")
        try:
            data: Json = json.loads(truth)
        except ValueError as error:
            raise AssertionError(f"{path}: the truth is not JSON: {error}") from None
        assert not data.keys() - _KEYS, f"{path}: {data.keys() - _KEYS} is not understood"
        expected = {"hangs": "hang", "healthy": "healthy"}[path.parent.name]
        assert data["expect"] == expected, f"{path} is in the wrong folder"
        given = {"says", "statuses"} & data.keys()
        assert len(given) == (2 if expected == "hang" else 0), f"{path} has {given}"
        packages = tuple(data.get("packages", ()))
        return cls(path, text, expected, data.get("says", ""), data.get("never"), tuple(data.get("statuses", (0,))),
                   data.get("core", False), data.get("known"), packages,
                   data.get("python", WITH_PACKAGES if packages else PYTHON))


def programs() -> list[Program]:
    """All programs, those that hang first."""
    paths = [path for folder in ("hangs", "healthy") for path in sorted((PROGRAMS / folder).iterdir())]
    return [Program.read(path) for path in paths if path.suffix in (".py", ".cpp")]


@contextlib.contextmanager
def running(program: Program, directory: Path, still: float = STILL) -> Iterator[int]:
    """Run a program in an empty directory until it has settled; the number of the process to report on."""
    with settled(_command(program), directory, still) as pid:
        yield pid


@contextlib.contextmanager
def settled(command: Sequence[str], directory: Path, still: float = STILL, **variables: str) -> Iterator[int]:
    """Run a command as `running` does a program."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    # else a core contains 64 MiB for each thread
    environment = {**kept, "MALLOC_ARENA_MAX": "1", "HOME": str(directory), **variables}
    with open(directory / "stderr", "w") as errors:
        process = subprocess.Popen(
            command, cwd=directory, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=errors, text=True, start_new_session=True,
        )
    try:
        assert process.stdout is not None
        ready, _, _ = select.select([process.stdout], [], [], patience(20))
        line = process.stdout.readline() if ready else ""
        assert line, f"{command} said nothing; {process.poll()}\n{(directory / 'stderr').read_text()}"
        answer = json.loads(line)
        if "skip" in answer:
            pytest.skip(answer["skip"])
        pid = answer["pid"]
        _settle(pid, still)
        assert process.poll() is None, f"{command} has ended\n{(directory / 'stderr').read_text()}"
        yield pid
    finally:
        _kill_session(process.pid)
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream:
                stream.close()


def _command(program: Program) -> list[str]:
    if program.path.suffix == ".cpp":
        return [str(precision.compile_cpp(program.name, program.path, ()))]
    path, _ = interpreters.use(program.python)
    if not program.packages:
        return [str(path), str(program.path)]
    path = samples.cache_directory().parent / "rates" / program.python / "bin" / "python"
    asked = f"import importlib.util as u; print(all(map(u.find_spec, {list(program.packages)!r})))"
    if not path.exists() or samples.HERE.run([path, "-c", asked]).strip() != "True":
        interpreters.do_without("rates-packages", f"scripts/rates has not installed {', '.join(program.packages)}")
    return [str(path), str(program.path)]


def _settle(pid: int, still: float) -> None:
    """Wait until nothing has changed for a while; a program that works, polls or has timers gets the longest time."""
    start = since = time.monotonic()
    before: dict[str, str] | None = None
    while time.monotonic() < min(since + still, start + LONGEST):
        now = {}
        for path in Path(f"/proc/{pid}/task").glob("*/syscall"):
            with contextlib.suppress(OSError):
                # the arguments of a wait that GDB or a timer restarts differ
                now[path.parent.name] = path.read_text().partition(" ")[0]
        if now != before:
            before, since = now, time.monotonic()
        time.sleep(0.02)


def _kill_session(session: int) -> None:
    """Kill all processes of a session, which may have started further ones meanwhile."""
    while True:
        alive = []
        for path in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                state, _, _, own = path.read_text().rpartition(") ")[2].split()[:4]
                if own == str(session) and state not in "ZX":
                    alive.append(int(path.parent.name))
        if not alive:
            return
        for pid in alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


def report(target: int | Path) -> launcher.Ran:
    """The report on a process or a core, without GDB."""
    return launcher.launch("report", str(target), gdb=None)


def report_on_core(pid: int, directory: Path) -> launcher.Ran:
    """The report on a core of a process, which goes on."""
    core = directory / "core-file"
    precision.core_by_gdb(pid, core)
    made = report(core)
    core.unlink()
    return made


def first_lines(program: Program, made: launcher.Ran) -> str:
    """What a person reads first, as one line, without the program's name, which says what is wrong."""
    return " ".join(" ".join(made.stdout.splitlines()[:FIRST_LINES]).replace(program.name, "program").split())


def verdict(made: launcher.Ran) -> str:
    """The line of the verdict, and the exit status."""
    lines = [line for line in made.stdout.splitlines() if line.strip()]
    said = next((line for line in lines if re.match(r"[A-Z][A-Z -]+\b", line)), "".join(lines[1:2]))
    return f"{said} (status {made.status})"


def judge(program: Program, made: launcher.Ran) -> str:
    """Compare a report with the truth."""
    assert made.status in (0, 1, 3, 5), f"no report: status {made.status}\n{made.stderr}"
    assert ("facts agree" in made.stdout) == (program.known is not None), "known bug"
    assert (program.known or "") in made.stdout
    if made.status == 3:
        return UNKNOWN
    if program.expect == "healthy":
        return {0: RIGHT, 1: FALSE_ALARM, 5: WEAK_ALARM}[made.status]
    if made.status == 0 and 0 not in program.statuses:
        return FALSE_COMFORT
    said = first_lines(program, made)
    if program.never and re.search(program.never, said, re.IGNORECASE):
        return FALSE_DEADLOCK
    if made.status not in program.statuses:
        return FALSE_DEADLOCK if made.status == 1 else VAGUE
    return RIGHT if re.search(program.says, said, re.IGNORECASE) else VAGUE


def worst(expect: str, outcomes: list[str]) -> str:
    """The outcome that counts, of several reports on one process."""
    return max(outcomes, key=OUTCOMES[expect].index)
