"""`py-mixed-bt`: the stack of the selected thread in all languages, with variables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support import cores, gdb_session, interpreters, samples
from tests.support.samples import Truth

NAMES = ("3.9", "3.11", "3.13", "3.11-stripped", "debian", interpreters.FREE_THREADED_VERSIONS[0])
CASES = [*((name, "live") for name in NAMES), (f"{interpreters.ANY}-stripped", "core")]
COMMANDS = ("py-mixed-bt", "py-mixed-bt -full", "py-mixed-bt -full --json", "py-mixed-bt 2", "py-mixed-bt -1", "frame")


@dataclass(frozen=True)
class Session:
    """The output of `COMMANDS`, and the truth."""

    truth: Truth
    result: gdb_session.Result

    @property
    def thread(self) -> Any:
        """The thread in the JSON document."""
        (thread,) = self.result.document(2)["threads"]
        return thread


@pytest.fixture(scope="module", params=CASES, ids=["-".join(case) for case in CASES])
def session(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """A deadlock between the GIL and a driver's lock."""
    name, target = request.param
    python, symbols = interpreters.use(name)
    with samples.rapids(python, "rwlock", tmp_path_factory.mktemp("rapids"), interpreters.with_gil(name)) as sample:
        with cores.place(sample, python, target) as where:
            result = gdb_session.batch(where, COMMANDS, symbols=symbols)
        yield Session(sample.truth, result)


def test_frames_match_the_truth(session: Session) -> None:
    assert session.result.status == 0
    assert "Traceback" not in session.result.stderr
    found = [[frame["function"], frame["file"], frame["line"]] for frame in session.thread["stack"]
             if frame["language"] == "python"]
    assert found == [list(frame) for frame in session.truth.threads["main"].stack]


def test_one_line_leads_from_python_to_the_driver(session: Session) -> None:
    lines = [line.strip() for line in session.result.outputs[0].splitlines()]
    (call,) = [index for index, line in enumerate(lines) if "ctypes call of drv_alloc()" in line]
    assert re.match(r"#\d+ +drv_alloc \(\) in libdrv\.so", lines[call - 1])
    assert re.match(r"#\d+ +allocate at .*rapids\.py:\d+", lines[call + 1])
    assert lines[-1].startswith("... program start")
    assert "waits for pthread rwlock" in lines[0]
    assert "holds the GIL" in lines[1]


def test_variables(session: Session) -> None:
    """The variables of each Python frame are in the text and the document, only with ``-full``."""
    stack = {frame["function"]: {each["name"]: (each["type"], each["value"]) for each in frame["locals"]}
             for frame in session.thread["stack"] if frame["language"] == "python"}
    assert stack["allocate"]["nbytes"] == ("int", "4096")
    assert stack["allocate"]["witness"][0] == "Witness"
    assert stack["allocate"]["witness"][1].startswith("<Witness at 0x")
    assert stack["run_pipeline"]["total"] == ("int", "0")
    assert "         nbytes: int = 4096" in session.result.outputs[1]
    assert "nbytes: int" not in session.result.outputs[0]


def test_count_limits_the_entries(session: Session) -> None:
    everything = session.result.outputs[0].splitlines()
    few = session.result.outputs[3].splitlines()
    assert few[:4] == everything[:4]
    assert few[4] == "  (More stack frames follow...)"
    last = session.result.outputs[4].splitlines()
    assert [line for line in last if line.startswith("  #") or "..." in line] == [everything[-1]]


def test_selected_frame_stays(session: Session) -> None:
    assert session.result.outputs[5].startswith("#0 ")


def test_variables_of_native_frames(tmp_path: Path) -> None:
    """They are read by debug information, without calls of pretty-printers or of functions in the target."""
    with samples.abba("mutex", tmp_path) as sample:
        session = gdb_session.batch(["-p", str(sample.pid)], ["thread 2", "py-mixed-bt -full --json"])
    assert session.status == 0
    (thread,) = session.document(1)["threads"]
    found = {each["name"] for frame in thread["stack"] for each in frame["locals"]}
    assert found
    assert all(isinstance(each["value"], str) for frame in thread["stack"] for each in frame["locals"])


@pytest.mark.parametrize(("arguments", "why"), [("x", "not a number of frames"), ("0", "not a number of frames"),
                                                ("1 2", "not a number of frames"), ("--nothing", "unknown option")])
def test_bad_arguments_are_refused(arguments: str, why: str, tmp_path: Path) -> None:
    with samples.abba("mutex", tmp_path) as sample:
        session = gdb_session.batch(["-p", str(sample.pid)], [f"py-mixed-bt {arguments}"])
    (line,) = session.error_lines("py-mixed-bt")
    assert why in line
    assert session.status != 0
