from __future__ import annotations

import os
from pathlib import Path

import pytest

from gdbext.inferior.address_space import Region
from gdbext.inferior.proc.process import Proc
from tests.support.fake_elf import fake_elf
from tests.support.fake_proc import FakeProc
from tests.support.fake_python_target import PythonTarget
from tests.support.fake_target import (
    READ,
    WAIT_PRIVATE,
    FakeTarget,
)
from tests.support.reasons import said
from tests.support.snapshots import report_of


def test_no_verdict_of_no_deadlock_in_a_truncated_core() -> None:
    target = FakeTarget()
    target.thread()
    assert report_of(target).no_verdict is None
    target.kept = (1_000, 124_456)
    assert said(report_of(target).no_verdict) == "the core is truncated: 1,000 of 124,456 bytes are there"


def test_no_verdict_of_no_deadlock_while_a_thread_cannot_be_read() -> None:
    target = FakeTarget()
    target.thread()
    assert report_of(target).problems == ()
    target.thread().available = False
    assert len(report_of(target).problems) == 1


def test_no_verdict_of_no_deadlock_in_a_python_that_is_not_decoded() -> None:
    target = FakeTarget()
    target.thread()
    assert report_of(target).no_verdict is None
    _, library = fake_elf(0x7F88_0000_0000, {"pypy_main_startup": (0x1000, 8)}, "/lib/libpypy3.9-c.so",
                          memory=target.ram)
    target.loaded.append(library)
    assert said(report_of(target).no_verdict) == "PyPy in libpypy3.9-c.so is not decoded"


def test_no_verdict_of_no_deadlock_while_thread_states_cannot_be_read() -> None:
    target = PythonTarget("3.11.7")
    _, first = target.python_thread()
    _, second = target.python_thread()
    assert report_of(target).no_verdict is None
    target.python.build.put("PyThreadState", second, next=second)
    target.python.build.put("PyThreadState", first, next=second)
    assert said(report_of(target).no_verdict) == "interpreter 0: the list of thread states has a loop"


# -- standstills of native waits ------------------------------------------------------------------------------

WAIT_SHARED = 0
SIGINT, SIGSEGV, SIGALRM = 1 << 1, 1 << 10, 1 << 13


@pytest.fixture
def fake(tmp_path: Path) -> FakeProc:
    return FakeProc(tmp_path)


def waiting(fake: FakeProc | None, *, op: int = WAIT_SHARED, caught: int = 0, kind: str = "p", path: str = "",
            more: str = "") -> FakeTarget:
    """A process, or without `fake` a core, both threads of which wait for futex words."""
    target = FakeTarget(kind="live" if fake is not None else "core")
    words = target.build.alloc(64)
    for at in (words, words + 32):
        target.ram.u32(at, 7)
        target.waits(target.thread(), at, 7, op)
    target.mappings = [Region(0x6000_0000_0000, 0x6001_0000_0000, "rw", path or None, shared=kind == "s"),
                       Region(0x6002_0000_0000, 0x6002_0000_1000, "rw", more or None)]
    if fake is not None:
        target.proc = fake.proc()
        with open(fake.root / "100/status", "a") as status:
            status.write(f"SigCgt:\t{caught:016x}\n")
    return target


@pytest.mark.parametrize("op", [WAIT_SHARED, WAIT_PRIVATE])
@pytest.mark.parametrize("caught", [0, SIGSEGV])
def test_standstill_when_all_threads_wait_for_private_words(fake: FakeProc, op: int, caught: int) -> None:
    (found,) = report_of(waiting(fake, op=op, caught=caught)).deadlocks
    assert (found.threads, found.standstill) == ((1, 2), True)


@pytest.mark.parametrize("change", [
    {"caught": SIGALRM}, {"caught": SIGINT}, {"kind": "s"}, {"kind": "s", "op": WAIT_PRIVATE},
    {"more": "anon_inode:[io_uring]"}])
def test_no_standstill_when_something_else_may_wake_a_thread(fake: FakeProc, change: dict[str, int | str]) -> None:
    assert report_of(waiting(fake, **change)).deadlocks == ()  # type: ignore[arg-type]


def test_no_standstill_when_handlers_or_mappings_are_not_known(fake: FakeProc) -> None:
    target = waiting(fake)
    target.mappings = []
    assert report_of(target).deadlocks == ()
    fake.write("100/status", "Name:\tserver\n")
    assert report_of(waiting(None)).deadlocks == (), "a core of a program without Python"


def test_no_standstill_when_a_thread_waits_for_input_or_a_time_or_was_woken(fake: FakeProc) -> None:
    target = waiting(fake)
    target.blocked(target.thread(), READ, 5)
    assert report_of(target).deadlocks == ()
    target.fakes.pop()
    target.waits(target.thread(), target.fakes[0].registers["rdi"], 7, WAIT_PRIVATE, timeout=0x1000)
    assert report_of(target).deadlocks == ()
    target.fakes.pop()
    assert report_of(target).deadlocks != ()
    target.ram.u32(target.fakes[0].registers["rdi"], 8)
    assert report_of(target).deadlocks == ()


@pytest.mark.parametrize(("ready", "stands"), [(None, True), (False, True), (True, False)])
def test_no_standstill_when_a_pipe_has_got_data_since_its_reader_was_stopped(
        fake: FakeProc, monkeypatch: pytest.MonkeyPatch, ready: bool | None, stands: bool) -> None:
    """Threads are stopped one after another: the last one may have written to the pipe after its reader was stopped."""
    target = waiting(fake)
    fake.open(5, "pipe:[7]", os.O_RDONLY)
    fake.open(6, "pipe:[7]", os.O_WRONLY)
    target.blocked(target.thread(), READ, 5)
    asked = []

    def is_ready(proc: Proc, fd: int, to_write: bool) -> bool | None:
        asked.append((fd, to_write))
        return ready

    monkeypatch.setattr(Proc, "is_ready", is_ready)
    assert [found.standstill for found in report_of(target).deadlocks] == [True] * stands
    assert set(asked) == {(5, False)}


@pytest.mark.parametrize("is_held", [True, False])
def test_thread_that_wants_a_held_gil_again_does_not_prevent_a_standstill(fake: FakeProc, is_held: bool) -> None:
    """It wakes up every few milliseconds, so its futex word may have changed."""
    target = PythonTarget("3.12.1")
    (main, state), (worker, _) = target.python_thread(), target.python_thread()
    word = target.build.alloc(64)
    target.ram.u32(word, 7)
    target.waits(main, word, 7, WAIT_PRIVATE)
    target.waits_for_gil(worker)
    if is_held:
        target.python.take_gil(target.interpreter, state)
    target.ram.u32(worker.registers["rdi"], 77)
    target.mappings = [Region(0x6000_0000_0000, 0x6001_0000_0000, "rw", None)]
    target.proc = fake.proc()
    with open(fake.root / "100/status", "a") as status:
        status.write(f"SigCgt:\t{0:016x}\n")
    report = report_of(target)
    assert [lock.kind for lock in report.locks if lock.waiters] == ["futex", "gil"]
    assert [(found.threads, found.standstill) for found in report.deadlocks] == [((1, 2), True)] * is_held


@pytest.mark.parametrize(("path", "private"), [("", True), ("/dev/zero (deleted)", False), ("/dev/shm/x", False)])
def test_anonymous_memory_of_a_core_is_private(path: str, private: bool) -> None:
    lock = report_of(waiting(None, path=path)).locks[0]
    assert lock.shared != private
