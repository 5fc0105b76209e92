"""A running process at one moment: of a child that runs, or sleeps for very short times."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from gdbext.inferior.cache import PAGE, read_available
from gdbext.inferior.proc.threads import Task, read_tasks
from gdbext.targets.process import Changes, ProcessTarget, Way

BURNING = "print('ready', flush=True)\nwhile True: pass"
SLEEPING = "import sys, time\nprint('ready', flush=True)\nsys.stdin.read()\ntime.sleep(1000)"
POLLING = ("import sys\nprint('ready', flush=True)\nlines = []\n"
           "for line in iter(sys.stdin.buffer.raw.readline, b''): lines.append(bytes(line))")
NAPPING = "import time\nprint('ready', flush=True)\nwhile True: time.sleep(0.001)"


@contextlib.contextmanager
def child(program: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()


def pages_of(target: ProcessTarget) -> frozenset[int]:
    """Read some memory, and return the addresses of its pages."""
    stack = target.registers(target.threads()[0], ("rsp",))["rsp"]
    assert target.memory.read(stack, 8)
    return target.pages


def read_elsewhere(target: ProcessTarget) -> None:
    """Read a page that may change and was not read before."""
    other = next(region.start for region in target.regions()
                 if region.allows("w") and region.start not in target.pages)
    assert target.memory.read(other, 1)


@pytest.fixture
def burning() -> Iterator[int]:
    with child(BURNING) as process:
        yield process.pid


@pytest.fixture
def napping() -> Iterator[int]:
    with child(NAPPING) as process:
        yield process.pid


def test_known_registers_of_a_thread_that_sleeps_take_no_stop() -> None:
    with child(SLEEPING) as process, contextlib.closing(ProcessTarget(process.pid)) as target:
        (thread,) = target.threads()
        known = target.known_registers(thread)
        assert {"rip", "rsp", "rdi"} <= known.keys()
        assert "rbx" not in known
        assert target.stopped.ever == set()
        assert "rbx" in target.registers(thread, ("rbx",))
        assert target.known_registers(thread).keys() > known.keys()


def test_thread_that_runs_has_run(burning: int) -> None:
    with contextlib.closing(ProcessTarget(burning)) as target:
        assert pages_of(target)
        assert target.stopped.current == set()
        # nothing but its stack was read, at one moment
        assert target.changes() == Changes()
        read_elsewhere(target)
        assert target.changes().ran == {burning}


def test_thread_that_was_stopped_for_the_image_may_run_on(burning: int) -> None:
    with contextlib.closing(ProcessTarget(burning)) as first:
        pages = pages_of(first)
    with contextlib.closing(ProcessTarget(burning, way=Way(frozenset({burning}), pages))) as target:
        assert pages_of(target)
        assert target.stopped.ever == {burning}
        assert target.stopped.current == set()
        assert target.changes() == Changes()
        # a page that was not part of the image shows another moment
        read_elsewhere(target)
        assert burning in target.changes().ran


def test_thread_that_sleeps_during_the_image_is_not_stopped(napping: int) -> None:
    with contextlib.closing(ProcessTarget(napping)) as first:
        pages = pages_of(first)
    with contextlib.closing(ProcessTarget(napping, way=Way(frozenset({napping}), pages))) as target:
        assert pages_of(target)
        before = target.tasks[napping]
        assert before.call is not None
        while read_tasks(napping)[napping].has_slept_since(before):
            pass
        assert target.stopped.ever == set()
        assert target.changes() == Changes()


def test_thread_that_sleeps_now_and_then_can_be_stopped_for_the_image(napping: int) -> None:
    with contextlib.closing(ProcessTarget(napping)) as first:
        pages = pages_of(first)
    with contextlib.closing(ProcessTarget(napping, way=Way(frozenset({napping}), pages, stop=True))) as target:
        assert pages_of(target)
        assert target.imaged == {napping}
        assert target.stopped.current == set()
        assert 0 < target.stopped.seconds < 5
        assert target.changes() == Changes()


def test_thread_that_runs_is_left_out_if_it_must_not_be_stopped(burning: int) -> None:
    with contextlib.closing(ProcessTarget(burning, False, Way(frozenset({burning}), frozenset({0x1000})))) as target:
        assert target.tasks[burning].call is None
        assert target.stopped.ever == set()
        assert target.changes() == Changes()


def test_thread_is_held_until_the_end(burning: int) -> None:
    target = ProcessTarget(burning, way=Way(frozenset({burning}), hold=True))
    with contextlib.closing(target), target.stopped:
        assert set(target.stopped.current) == {burning}
        assert target.changes() == Changes()


@pytest.fixture
def sleeping() -> Iterator[subprocess.Popen[str]]:
    with child(SLEEPING) as process:
        wait_until_asleep(process.pid)
        yield process


def wait_until_asleep(pid: int, since: Task | None = None) -> None:
    """Wait until a thread sleeps, and has run since it was read."""
    while True:
        task = read_tasks(pid)[pid]
        if task.call is not None and not task.has_slept_since(since):
            return


def wake(process: subprocess.Popen[str]) -> None:
    """Have the child sleep in another call."""
    before = read_tasks(process.pid)[process.pid]
    assert process.stdin is not None
    process.stdin.close()
    while read_tasks(process.pid)[process.pid].call in (before.call, None):
        pass


def test_sleeping_thread_is_stopped_for_registers_and_sleeps_on(sleeping: subprocess.Popen[str]) -> None:
    with contextlib.closing(ProcessTarget(sleeping.pid)) as target:
        thread, = target.threads()
        slept = target.registers(thread)
        assert target.stopped.ever == set()
        registers = target.registers(thread, ("rip", "rsp", "rbp", "rbx", "fs_base"))
        assert registers.keys() == {"rip", "rsp", "rbp", "rbx", "fs_base"}
        assert (registers["rip"], registers["rsp"]) == (slept["rip"], slept["rsp"])
        assert target.stopped.ever == {sleeping.pid}
        assert target.stopped.current == set()
        read_elsewhere(target)
        assert target.changes() == Changes()


def test_stop_for_registers_does_not_end_a_wait(sleeping: subprocess.Popen[str]) -> None:
    time.sleep(1)  # it may be a moment before the process sleeps
    with contextlib.closing(ProcessTarget(sleeping.pid)) as target:
        thread = target.threads()[0]
        assert target.registers(thread, ("rbx",))
        assert target.seconds_since_run([thread])[thread.number] >= 0.5


def test_thread_that_sleeps_in_another_call_has_moved(sleeping: subprocess.Popen[str]) -> None:
    with contextlib.closing(ProcessTarget(sleeping.pid)) as target:
        pages_of(target)
        wake(sleeping)
        assert target.changes().moved == {sleeping.pid}


def test_thread_that_moved_before_it_was_stopped_has_moved(sleeping: subprocess.Popen[str]) -> None:
    with contextlib.closing(ProcessTarget(sleeping.pid)) as target:
        wake(sleeping)
        assert target.registers(target.threads()[0], ("rbp",))
        assert target.changes().moved == {sleeping.pid}


def test_thread_that_has_run_and_is_where_it_was_has_not_moved() -> None:
    """What was read is still the same; if not, the pages are known."""
    with child(POLLING) as process:
        pid = process.pid
        wait_until_asleep(pid)
        for _ in range(3):  # the other registers get their values, too
            send_line(process)
        with contextlib.closing(ProcessTarget(pid)) as target:
            code = next(region.start for region in target.regions() if not region.allows("w"))
            assert target.memory.read(code, 1)
            send_line(process)
            assert target.changes() == Changes(frozenset({pid}))
            read_all(target)
            send_line(process)
            changes = target.changes()
            assert changes.moved == set()
            assert set() < changes.pages < target.pages


def read_all(target: ProcessTarget) -> None:
    """Read the first MiB of each region that may change, page by page.

    The pages of a long range, which is read past the cache, count as changed together.
    """
    for region in target.regions():
        if region.allows("w"):
            for address in range(region.start, min(region.end, region.start + (1 << 20)), PAGE):
                read_available(target.memory, address, PAGE)


def send_line(process: subprocess.Popen[str]) -> None:
    before = read_tasks(process.pid)[process.pid]
    assert process.stdin is not None
    print(file=process.stdin, flush=True)
    wait_until_asleep(process.pid, before)
