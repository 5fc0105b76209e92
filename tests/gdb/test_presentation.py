"""Presentation of threads: boundaries, order, groups with the same stack, the terminal's width, GDB's pager."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support import cores, gdb_session, interpreters, samples
from tests.support.gdb_session import Interactive, Result, without_times
from tests.support.samples import Sample

WORKERS = 12

#: An idle pool, two deadlocked threads, one stuck behind them, one that waits for a lock, and that lock's holder.
PROGRAM = '''\
import json
import os
import queue
import sys
import threading
import time

work = queue.Queue()
first, second, third = threading.Lock(), threading.Lock(), threading.Lock()
both = threading.Barrier(2)
held = threading.Event()
started = []


def idle():
    started.append(1)
    work.get()


def cross(mine, other):
    with mine:
        both.wait()
        started.append(1)
        with other:
            pass


def behind():
    started.append(1)
    with first:
        pass


def hold():
    with third:
        held.set()
        started.append(1)
        os.read(0, 1)


def wait():
    held.wait()
    started.append(1)
    with third:
        pass


def start(name, target, *arguments):
    threading.Thread(target=target, args=arguments, name=name, daemon=True).start()


for number in range(int(sys.argv[1])):
    start("worker_%d" % number, idle)
start("waiter", wait)
start("holder", hold)
start("left", cross, first, second)
start("right", cross, second, first)
while len(started) < int(sys.argv[1]) + 4:
    time.sleep(0.01)
start("behind", behind)
while len(started) < int(sys.argv[1]) + 5:
    time.sleep(0.01)
threads = {thread.name: {"tid": thread.native_id, "python_name": thread.name, "blocked": True, "stack": [],
                         "syscall": {"MainThread": "pause", "holder": "read"}.get(thread.name, "futex")}
           for thread in threading.enumerate()}
print(json.dumps({"sample": "presentation", "variant": "", "pid": os.getpid(), "threads": threads, "locks": {},
                  "deadlock": [], "stuck_behind": []}), flush=True)
__import__("signal").pause()
'''
COMMANDS = ("py-threads-locks", "py-threads-locks --each", "py-threads-locks 1 3-5 --each", "py-threads-locks --json",
            "py-threads-locks --stacks=none")
CASES = [("3.9", "live"), ("3.11", "live"), ("3.13", "gcore"), (interpreters.FREE_THREADED_VERSIONS[0], "live")]


@dataclass(frozen=True)
class Session:
    """The output of `COMMANDS`."""

    result: Result
    free_threaded: bool

    @property
    def numbers(self) -> dict[str, int]:
        """The GDB numbers of the threads, by name."""
        return {thread["python_name"] or thread["name"]: thread["number"]
                for thread in self.result.document(3)["threads"]}

    def headings(self, index: int) -> list[str]:
        """The heading of each thread or group with the same stack, after the verdict."""
        text = self.result.outputs[index].partition("Threads:")[2]
        return [part.splitlines()[0] for part in text.split("\n\n") if part.strip()]

    def order(self, index: int) -> list[int]:
        """The numbers of the threads without a group, in the order shown."""
        return [int(number) for line in self.headings(index) for number in re.findall(r"^Thread (\d+) ", line)]


@pytest.fixture(scope="module", params=CASES, ids=["-".join(case) for case in CASES])
def session(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """The program above."""
    name, target = request.param
    python, symbols = interpreters.use(name)
    directory = tmp_path_factory.mktemp("presentation")
    program = directory / "presented.py"
    program.write_text(PROGRAM)
    with samples.running([python, program, str(WORKERS)], directory) as sample:
        with cores.place(sample, python, target) as where:
            result = gdb_session.batch(where, COMMANDS, symbols=symbols)
        yield Session(result, name in interpreters.FREE_THREADED_NAMES)


def test_deadlocked_threads_come_first(session: Session) -> None:
    assert session.result.status == 0
    numbers = session.numbers
    order = session.order(1)
    assert sorted(order) == sorted(numbers.values())
    names = {number: name for name, number in numbers.items()}
    names_in_order = [names[number] for number in order]
    (deadlock,) = session.result.document(3)["deadlocks"]
    assert order[:2] == deadlock["threads"]
    assert set(names_in_order[:2]) == {"left", "right"}
    assert names_in_order[2:6] == ["holder", "behind", "waiter", "MainThread"]
    assert names_in_order[6:] == [f"worker_{number}" for number in range(WORKERS)]
    # the groups are in the same order
    assert session.order(0) == order[:6]


def test_requested_order_is_kept(session: Session) -> None:
    assert session.order(2) == [1, 3, 4, 5]


def test_json_is_ordered_by_number_with_whole_stacks(session: Session) -> None:
    document = session.result.document(3)
    numbers = [thread["number"] for thread in document["threads"]]
    assert numbers == sorted(numbers)
    for thread in document["threads"]:
        if (thread["python_name"] or "").startswith("worker"):
            functions = [frame["function"] for frame in thread["stack"] if frame["language"] == "python"]
            assert functions[-3:] == ["run", "_bootstrap_inner", "_bootstrap"]


def test_grouped_threads_have_numbers_and_names(session: Session) -> None:
    numbers = [session.numbers[f"worker_{number}"] for number in range(WORKERS)]
    assert numbers == list(range(numbers[0], numbers[0] + WORKERS))
    heading = f'{WORKERS} threads {numbers[0]}-{numbers[-1]} ("worker_0" ... "worker_{WORKERS - 1}"): '
    assert [line for line in session.headings(0) if line.startswith(heading)] == [session.headings(0)[-1]]
    # without stacks, threads that wait for the same lock are grouped
    assert session.order(4) == session.order(0)
    assert session.headings(4)[-1] == session.headings(0)[-1]
    assert [line for line in session.headings(1) if " threads " in line] == []


def test_frames_have_the_numbers_of_the_whole_stack(session: Session) -> None:
    document = session.result.document(3)
    text = session.result.outputs[1].partition("Threads:")[2]
    shown = {int(re.findall(r"^Thread (\d+) ", part)[0]): part for part in text.split("\n\n") if part.strip()}
    for thread in document["threads"]:
        part = shown[thread["number"]]
        frames = re.findall(r"^  #(\d+) +(.*?) (?:\(\)|\[|at )", part, re.MULTILINE)
        assert frames
        for number, function in frames:
            frame = thread["stack"][int(number)]
            assert function == frame["function"] or frame["language"] == "native"
        folded = sum(int(count or 1) for count in re.findall(r"^       \.\.\. .*?(?: \((\d+) frames\))?$", part,
                                                             re.MULTILINE))
        assert len(frames) + folded == len(thread["stack"])


def test_start_of_threads_is_one_line(session: Session) -> None:
    verdict, _, text = session.result.outputs[0].partition("Threads:")
    assert "_bootstrap" not in verdict + text
    assert re.search(r"^ +\.\.\. thread start \(\d+ frames\)$", text, re.MULTILINE)
    assert "... program start" in text


@pytest.mark.parametrize("target", ["live", "gcore"])
def test_calls_between_languages_are_named(target: str, tmp_path: Path) -> None:
    python, symbols = interpreters.use("3.11-stripped")
    with samples.rapids(python, "rwlock", tmp_path) as sample, cores.place(sample, python, target) as where:
        result = gdb_session.batch(where, ["py-threads-locks", "py-deadlocks", "gil-holder", "lock-owner"],
                                   symbols=symbols)
    assert result.status == 0
    for text in (result.outputs[0].partition("Threads:")[2], *result.outputs[1:]):
        assert "... ctypes call of drv_alloc() (" in text
        assert "libffi" not in text
    threads, verdict = result.outputs[:2]
    assert re.search(r"\.\.\. ctypes callback \(\d+ frames\)\n", threads)
    assert re.search(r"\.\.\. \d+ frames, with ctypes callback\n", verdict)
    assert "... ctypes call of drv_dispatch() (" in verdict


@pytest.mark.parametrize("width", [60, 80, 120])
def test_lines_fit_the_terminal(width: int, tmp_path: Path) -> None:
    python, symbols = interpreters.use("3.11")
    commands = [command for each in ("py-threads-locks", "py-deadlocks", "gil-holder", "lock-owner", "py-mixed-bt")
                for command in (each, f"set width {width}", each, "set width 0")]
    with samples.rapids(python, "rwlock", tmp_path) as sample:
        lock = sample.truth.locks["table"].address
        result = gdb_session.batch(["-p", str(sample.pid)], [*commands, f"set width {width}", "py-deadlocks --json"],
                                   symbols=symbols)
    assert lock is not None
    assert result.status == 0
    for index in range(0, len(commands), 4):
        whole, fitted = result.outputs[index], result.outputs[index + 2]
        assert max(map(len, whole.splitlines())) > width or width > 100
        # GDB's pager counts a line as wide as the terminal twice
        assert max(map(len, fitted.splitlines())) < width, fitted
        joined = " ".join(fitted.split())
        for word in re.findall(r"0x[0-9a-f]+|thread \d+|rapids\.py:\d+|LWP \d+|#\d+|write-locked|ctypes call of \w+",
                               whole):
            assert word in joined, word
        assert hex(lock) in fitted
        # the marked part is the one that runs
        for line, carets in zip(fitted.splitlines(), fitted.splitlines()[1:]):
            if re.fullmatch(r" +\^+", carets):
                shown = line[carets.index("^"):len(carets)]
                assert shown.rstrip(".") in whole
    assert json.loads(result.outputs[-1])["deadlocks"]


@pytest.fixture
def sample(tmp_path: Path) -> Iterator[Sample]:
    """A deadlocked program."""
    python, _ = interpreters.use(interpreters.ANY)
    with samples.rapids(python, "rwlock", tmp_path / "sample") as running:
        yield running


@pytest.mark.parametrize("command", ["py-threads-locks", "py-deadlocks", "py-mixed-bt"])
def test_output_stops_at_each_page_and_ends_on_quit(command: str, sample: Sample, tmp_path: Path) -> None:
    with Interactive(["-p", str(sample.pid)], home=tmp_path, cwd=tmp_path) as gdb:
        # GDB's output about the threads comes first, so that only the command's output fills pages
        whole = without_times(gdb.command(command))
        thread, frame = gdb.command("thread"), gdb.command("frame")
        for setting in ("set pagination on", "set height 6", "set width 100"):
            gdb.command(setting)
        gdb.start(command)
        gdb.process.expect_exact("continue without paging--")
        gdb.process.sendline("")
        gdb.process.expect_exact("continue without paging--")
        gdb.process.sendline("q")
        rest = gdb.read_to_prompt()
        assert rest.split() in (["q", "Quit"], ["q"], ["Quit"])
        gdb.command("set height 0")
        gdb.command("set width 0")
        assert (gdb.command("thread"), gdb.command("frame")) == (thread, frame)
        assert without_times(gdb.command(command)) == whole
        assert "Traceback" not in gdb.transcript
        assert "Error" not in gdb.transcript
    assert not sample.is_stopped()
