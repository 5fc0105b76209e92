"""Functions that the compiler inlined: their names and places are those that GDB's `bt` shows."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import cores, gdb_session, samples
from tests.support.samples import Sample

FLAGS = ("-O2", "-g", "-fopenmp", "-fno-optimize-sibling-calls", "-pthread")
COMMANDS = ("py-threads-locks --json", "thread apply all -q bt", "py-deadlocks", "py-threads-locks --each")
#: GDB's `bt`: "#6  there(void*) () at /source/inlined.cc:35".
_BY_GDB = re.compile(r"^#\d+ +(?:0x\w+ in )?(\S+?)(?:\(.*?\))? \(.*\) at (?:\S*/)?inlined\.cc:(\d+)$", re.MULTILINE)
#: gdbext: "bank::transfer () inlined at /source/inlined.cc:29".
_SHOWN = re.compile(r"^ +(?:#\d+ +)?(\S+) \(\) (?:in|inlined) (?:inlined )?at \S*/inlined\.cc:(\d+)$", re.MULTILINE)


@contextlib.contextmanager
def running(directory: Path, *, strip: bool) -> Iterator[Sample]:
    """Run the program, whose threads wait for each other."""
    program = samples.compiled("inlined", "inlined.cc", FLAGS, ["-lstdc++"], strip=strip)
    with samples.running([program], directory) as sample:
        yield sample


def report(sample: Sample, target: str) -> gdb_session.Result:
    """The session of all commands, which find the deadlock."""
    with cores.place(sample, sample.executable, target) as where:
        session = gdb_session.batch(where, COMMANDS)
    assert session.status == 0, session
    assert [deadlock["threads"] for deadlock in session.document()["deadlocks"]] == [[2, 3]]
    return session


def places(thread: dict[str, Any]) -> list[tuple[str, str]]:
    """The functions of the program and their lines, innermost first, with those that are inlined."""
    calls = [call for frame in thread["stack"] if frame["module"] == "inlined" and frame["file"]
             for call in [*frame.get("inlined", ()), frame]]
    return [(call["function"].partition("(")[0], str(call["line"])) for call in calls]


@pytest.mark.parametrize("target", ["live", "gcore"])
def test_inlined_functions_and_lines_are_those_of_bt(target: str, tmp_path: Path) -> None:
    """A template inlined twice deep into a thread's function, and calls in a function that OpenMP splits off."""
    with running(tmp_path, strip=False) as sample:
        session = report(sample, target)
    threads = session.document()["threads"]
    found = [place for thread in threads for place in places(thread)]
    assert {function for function, _ in found} >= {"bank::transfer", "audit", "there", "main._omp_fn.0"}
    assert sorted(found) == sorted(_BY_GDB.findall(session.outputs[1]))
    assert sorted(_SHOWN.findall(session.outputs[3])) == sorted(found)
    concerned = [place for thread in threads if thread["number"] in (2, 3) for place in places(thread)]
    assert sorted(_SHOWN.findall(session.outputs[2])) == sorted(concerned)


def test_inlined_functions_of_the_c_library_are_not_shown(tmp_path: Path) -> None:
    """A person does not need them; JSON has them."""
    with running(tmp_path, strip=False) as sample:
        session = report(sample, "live")
    in_library = [call["function"] for thread in session.document()["threads"] for frame in thread["stack"]
                  if frame["module"] == "libc.so.6" for call in frame.get("inlined", ())]
    assert ("futex_wait" in in_library) == (" futex_wait (" in session.outputs[1])
    assert "futex_wait" not in session.outputs[2] + session.outputs[3]


def test_stripped_program_has_no_inlined_functions(tmp_path: Path) -> None:
    """Nothing is guessed without debug information."""
    with running(tmp_path, strip=True) as sample:
        session = report(sample, "live")
    for thread in session.document()["threads"]:
        assert all("inlined" not in frame for frame in thread["stack"] if frame["module"] == "inlined")
    assert " inlined at " not in session.outputs[3]
