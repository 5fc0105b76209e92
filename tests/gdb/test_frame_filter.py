"""The frame filter `gdbext-python`, by which GDB's `bt` shows Python frames in place of the interpreter's."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support import another_stack, cores, gdb_session, interpreters, roots, samples
from tests.support.gdb_session import timeless
from tests.support.samples import Truth

NAMES = (*interpreters.MAIN_NAMES, *interpreters.FREE_THREADED_NAMES[:1])
CASES = [*((name, "live") for name in NAMES),
         *((f"{interpreters.ANY}-stripped", target) for target in ("gcore", "core"))]
COMMANDS = ("bt", "bt -no-filters", "thread apply all bt", "bt 2", "disable frame-filter global gdbext-python", "bt",
            "enable frame-filter global gdbext-python", "bt -full", "set gdbext source path", "bt")
FRAME = re.compile(r"^(?:#(?P<number>\d+) +|    )(?:(?P<address>0x[0-9a-f]+) in )?(?P<function>.*?) \(.*\)"
                   r"(?: (?:at|from) (?P<place>.*))?$")


@dataclass(frozen=True)
class Frame:
    """A line of a backtrace; `number` is None for further Python frames of the same native frame."""

    number: int | None
    function: str
    place: str
    is_python: bool


@dataclass(frozen=True)
class Session:
    """The output of `COMMANDS`, and the truth."""

    truth: Truth
    result: gdb_session.Result

    def frames(self, index: int) -> list[Frame]:
        """The frames in a command's output."""
        return frames(self.result.outputs[index])


def frames(text: str) -> list[Frame]:
    found = []
    for line in text.splitlines():
        match = FRAME.match(line)
        if match:
            number, place = match["number"], match["place"] or ""
            found.append(Frame(int(number) if number else None, match["function"], place,
                               match["address"] is None and re.search(r"\.py:\d+$", place) is not None))
    return found


@pytest.fixture(scope="module", params=CASES, ids=["-".join(case) for case in CASES])
def session(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """A deadlock between the GIL and a driver's lock."""
    name, target = request.param
    python, symbols = interpreters.use(name)
    with samples.rapids(python, "rwlock", tmp_path_factory.mktemp("rapids"), interpreters.with_gil(name)) as sample:
        with cores.place(sample, python, target) as where:
            result = gdb_session.batch(where, COMMANDS, symbols=symbols)
        yield Session(sample.truth, result)


def python_frames(shown: Sequence[Frame]) -> list[tuple[str, str]]:
    return [(frame.function, frame.place) for frame in shown if frame.is_python]


def test_python_frames_match_the_truth(session: Session) -> None:
    expected = [(function, f"{file}:{line}") for function, file, line in session.truth.threads["main"].stack]
    assert python_frames(session.frames(0)) == expected
    assert session.result.status == 0
    assert "Traceback" not in session.result.stderr


def test_native_frames_keep_gdb_numbers(session: Session) -> None:
    """Native frames keep GDB's numbers, in order, and no frame of the eval loop remains."""
    shown = [frame for frame in session.frames(0) if not frame.is_python]
    everything = {frame.number: frame.function for frame in session.frames(1)}
    assert [(frame.number, frame.function) for frame in shown] == [
        (number, function) for number, function in everything.items() if number in {frame.number for frame in shown}]
    assert not [frame.function for frame in shown if "PyEval" in frame.function]
    assert {"drv_alloc"} <= {frame.function for frame in shown}
    assert len(shown) < len(everything)


def test_python_frames_have_numbers_of_the_eval_loop(session: Session) -> None:
    numbers = [frame.number for frame in session.frames(0) if frame.number is not None]
    assert numbers == sorted(set(numbers))
    first = next(frame for frame in session.frames(0) if frame.is_python)
    assert first.number is not None


def test_all_threads(session: Session) -> None:
    parts = re.split(r"^Thread (\d+) \(", session.result.outputs[2], flags=re.MULTILINE)[1:]
    stacks = {int(number): frames(text) for number, text in zip(parts[::2], parts[1::2])}
    expected = [[(function, f"{file}:{line}") for function, file, line in thread.stack]
                for thread in session.truth.threads.values() if thread.stack]
    found = [python_frames(stack) for stack in stacks.values()]
    assert sorted(stack for stack in found if stack) == sorted(expected)


def test_bt_with_a_count_and_without_filters(session: Session) -> None:
    assert session.frames(3) == session.frames(0)[:2]
    assert session.frames(5) == session.frames(1)
    assert not python_frames(session.frames(1))


def test_source_lines_are_below_python_frames(session: Session) -> None:
    lines = session.result.outputs[0].splitlines()
    for function, file, line in session.truth.threads["main"].stack:
        assert line is not None
        (at,) = [i for i, shown in enumerate(lines) if shown.endswith(f"{function} () at {file}:{line}")]
        assert lines[at + 1] == " " * 8 + Path(file).read_text().splitlines()[line - 1].strip()
    # the frames are shown even if no file may be read
    without = session.result.outputs[9]
    assert python_frames(frames(without)) == python_frames(session.frames(0))
    assert "drv_alloc(witness" not in without


def test_variables_of_python_frames(session: Session) -> None:
    lines = session.result.outputs[7].splitlines()
    assert '        nbytes = "4096"' in lines
    assert '        total = "0"' in lines
    assert not [line for line in session.result.outputs[0].splitlines() if "nbytes = " in line]


def test_two_processes(tmp_path: Path) -> None:
    """Two processes with a Python each, and one without."""
    python, _ = interpreters.use("3.11")
    with samples.rapids(python, "rwlock", tmp_path / "one") as one, samples.abba("mutex", tmp_path / "two") as two, \
            samples.rapids(python, "mutex", tmp_path / "three") as three:
        commands = ["bt"]
        for sample, number in ((two, 2), (three, 3)):
            commands += ["add-inferior", f"inferior {number}", f"attach {sample.pid}", "bt"]
        commands += ["inferior 1", "bt", "inferior 2", "bt", "info inferiors"]
        session = gdb_session.batch(["-p", str(one.pid)], commands)
        first, second, third, again, last = (session.outputs[index] for index in (0, 4, 8, 10, 12))
    for shown in (first, third):
        assert re.search(r"^#\d+ +allocate \(\) at .*rapids\.py:\d+$", shown, re.MULTILINE), shown
        assert "_PyEval" not in shown
    assert ".py:" not in second
    assert (again, last) == (first, second)


def test_mi_has_the_same_frames(tmp_path: Path) -> None:
    """GDB/MI, which editors use."""
    python, _ = interpreters.use("3.11")
    with samples.rapids(python, "rwlock", tmp_path) as sample:
        argv = [gdb_session.executable(), "-nx", "-q", "--interpreter=mi2", *gdb_session.settings(symbols=True),
                "-iex", gdb_session.LOAD, "-p", str(sample.pid)]
        typed = "-enable-frame-filters\n-stack-list-frames\n-gdb-exit\n"
        done = subprocess.run(argv, input=typed, capture_output=True, text=True, timeout=gdb_session.TIMEOUT,
                              check=False, env=gdb_session.environment(tmp_path))
        (listed,) = (line for line in done.stdout.splitlines() if line.startswith("^done,stack="))
        found = re.findall(r'\{(?:level="\d+",)?func="([^"]*)",file="([^"]*\.py)",line="(\d+)"', listed)
        assert [(function, file, int(line)) for function, file, line in found] == [
            tuple(frame) for frame in sample.truth.threads["main"].stack]


@pytest.mark.parametrize("name", ["", *interpreters.GDBS], ids=["default", *interpreters.GDBS])
def test_commands_print_the_same_in_mi(name: str, tmp_path: Path) -> None:
    """Some GDBs encode command output for MI even when Python reads it."""
    gdb = roots.use_gdb(name) if name else Path(gdb_session.executable())
    python, _ = interpreters.use("3.11")
    with samples.rapids(python, "rwlock", tmp_path) as sample:
        place = ["-p", str(sample.pid)]
        session = gdb_session.batch(place, ["py-threads-locks --json", "show gdbext"], gdb=[gdb])
        argv = [str(gdb), "-nx", "-q", "--interpreter=mi2", *gdb_session.settings(symbols=True), "-iex",
                gdb_session.LOAD]
        typed = "py-threads-locks --json\n-interpreter-exec console \"show gdbext\"\n-gdb-exit\n"
        done = subprocess.run([*argv, *place], input=typed, capture_output=True, text=True,
                              timeout=gdb_session.TIMEOUT, check=False, env=gdb_session.environment(tmp_path))
    streams = "".join([json.loads(line[1:]) for line in done.stdout.splitlines() if line.startswith('~"')])
    document, _ = json.JSONDecoder().raw_decode(streams, streams.index('{"schema"'))
    assert timeless(document) == timeless(session.document())
    assert session.outputs[1] in streams


UNMERGED = [(name, target) for name in ("3.6", "3.9", "3.10-stripped") for target in ("live", "gcore")]


@pytest.mark.parametrize(("name", "target"), UNMERGED, ids=["-".join(case) for case in UNMERGED])
def test_stack_that_cannot_be_merged_is_shown_in_one_piece(name: str, target: str, tmp_path: Path) -> None:
    commands = ["bt", "bt -no-filters", "bt 2", "bt -no-filters 2", "bt -2", "bt -full 1", "bt -hide",
                "thread apply all bt", "py-threads-locks"]
    with another_stack.running(name, tmp_path) as (sample, python, symbols), \
            cores.place(sample, python, target) as where:
        result = gdb_session.batch(where, commands, symbols=symbols)
    assert result.status == 0
    assert "Traceback" not in result.stderr
    lines = result.outputs[0].splitlines()
    (note,) = [i for i, line in enumerate(lines) if "Python frames cannot be placed" in line]
    # directly below the innermost frame, contiguous
    assert lines[note - 1].startswith("#0 ")
    below = frames("\n".join(lines[note + 1:]))
    assert [frame.function for frame in below if frame.number is None] == another_stack.CALLS
    assert lines[note + 2] == "        os.read(0, 1)"
    assert lines[note + 9].startswith("#1 ")
    # all native frames, with GDB's numbers
    for filtered, own in ((0, 1), (2, 3), (7, 1)):
        shown = [frame for frame in frames(result.outputs[filtered]) if frame.number is not None]
        assert [frame.number for frame in shown] == [frame.number for frame in frames(result.outputs[own])]
    # as many Python frames as native ones, and the number of the rest
    assert [frame.function for frame in frames(result.outputs[2]) if frame.is_python] == another_stack.CALLS[:2]
    assert "[2 more Python frames]" in result.outputs[2]
    assert "more Python frame" not in result.outputs[0]
    assert not [frame for frame in frames(result.outputs[4]) if frame.is_python]
    assert len(frames(result.outputs[4])) == 2
    assert '                count = "5"' in result.outputs[5].splitlines()
    assert not [frame for frame in frames(result.outputs[6]) if frame.is_python]
    assert "Python frames first, then native ones: 4 Python frames, but " in result.outputs[8]


def test_mi_has_unplaced_python_frames_separately(tmp_path: Path) -> None:
    """In GDB/MI they are not frames of the stack, so its levels are GDB's."""
    with another_stack.running("3.9", tmp_path) as (sample, _, _):
        argv = [gdb_session.executable(), "-nx", "-q", "--interpreter=mi2", *gdb_session.settings(symbols=True),
                "-iex", gdb_session.LOAD, "-p", str(sample.pid)]
        typed = "-stack-list-frames\n-enable-frame-filters\n-stack-list-frames\n-stack-list-frames 0 1\n-gdb-exit\n"
        done = subprocess.run(argv, input=typed, capture_output=True, text=True, timeout=gdb_session.TIMEOUT,
                              check=False, env=gdb_session.environment(tmp_path))
    plain, filtered, two = (line for line in done.stdout.splitlines() if line.startswith("^done,stack="))
    children = re.search(r"children=\[(.*?)\]\}", filtered)
    assert children is not None
    assert re.findall(r'func="([^"]*)",file="[^"]*another_stack\.py"', children[1]) == another_stack.CALLS
    assert 'level="' not in children[1]
    assert re.findall(r'level="(\d+)"', filtered) == re.findall(r'level="(\d+)"', plain)
    assert re.findall(r'level="(\d+)"', two) == ["0", "1"]


#: More frames than gdbext reads for one thread.
DEEP = """
import json, os, sys, threading

sys.setrecursionlimit(1 << 20)
threading.stack_size(512 << 20)


def dive(left):
    if left:
        dive(left - 1)
    print(json.dumps({"sample": "deep", "variant": "", "pid": os.getpid(), "threads": {}, "locks": {}, "deadlock": [],
                      "stuck_behind": []}), flush=True)
    os.read(0, 1)


threading.Thread(target=dive, args=[30_000]).start()
"""


@pytest.mark.parametrize(("name", "version"), [("", "3.11"), ("", "3.13"), *zip(interpreters.GDBS, ("3.13", "3.11"))])
def test_count_bounds_the_output_of_a_very_deep_stack(name: str, version: str, tmp_path: Path) -> None:
    gdb = [roots.use_gdb(name)] if name else []
    python, symbols = interpreters.use(version)
    program = tmp_path / "deep.py"
    program.write_text(DEEP)
    counts = ("bt 5", "bt -5", "bt -full 5", "py-mixed-bt 5", "py-mixed-bt -5")
    with samples.running([python, program], tmp_path) as sample:
        result = gdb_session.batch(["-p", str(sample.pid)], ["thread 2", *counts], symbols=symbols, gdb=gdb)
    assert "Traceback" not in result.stderr
    shown = dict(zip(counts, result.outputs[1:]))
    assert [count for count, text in shown.items() if len(text.splitlines()) > 60 or len(text) > 10_000] == []
    for count in ("bt 5", "bt -full 5"):
        assert [frame.function for frame in frames(shown[count]) if frame.is_python] == ["dive"] * 5
        assert "cut after 20000 Python frames" in shown[count]
        assert "[19995 more Python frames]" in shown[count]


@pytest.mark.parametrize("variant", ["future", "random", "zero", "loop"])
def test_invalid_python_runtime_leaves_frames_to_gdb(variant: str, tmp_path: Path) -> None:
    with samples.impostor(variant, tmp_path) as sample:
        result = gdb_session.batch(["-p", str(sample.pid)], ["bt", "bt -no-filters"])
    assert [frame.function for frame in frames(result.outputs[0])] == [
        frame.function for frame in frames(result.outputs[1])]
    assert "Traceback" not in result.stderr
    assert result.status == 0


@pytest.mark.parametrize(("first", "second"), list(itertools.permutations(("bt", "py-threads-locks"), 2)))
def test_commands_and_backtraces_do_not_disturb_each_other(first: str, second: str, tmp_path: Path) -> None:
    python, _ = interpreters.use("3.12")
    with samples.rapids(python, "rwlock", tmp_path) as sample:
        result = gdb_session.batch(["-p", str(sample.pid)], ["thread 2", "frame 1", first, second, "frame", "bt"])
    assert result.status == 0
    assert "#1 " in result.outputs[4]
    worker = next(thread for role, thread in sample.truth.threads.items() if role != "main" and thread.stack)
    assert python_frames(frames(result.outputs[5])) == [
        (function, f"{file}:{line}") for function, file, line in worker.stack]
