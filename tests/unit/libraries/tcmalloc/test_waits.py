from __future__ import annotations

import pytest

from gdbext.inferior.protocol import Module, Section
from gdbext.model import EXCLUSIVE, INFERRED, Holder, Lock, Report
from gdbext.model.reasons import because
from tests.support.fake_target import APP_DATA, FakeTarget, FakeThread
from tests.support.snapshots import lock_of, report_of, thread_of

TCMALLOC, LIBRARY = 0x7D00_0000_0000, "/lib/libtcmalloc_minimal.so.4"
WORD, TIMEOUT = APP_DATA + 0x40, 0x1000
INSIDE = because("only-thread-inside", where="tcmalloc")


class Process:
    """Threads that wait for a lock of tcmalloc."""

    def __init__(self, library: str = LIBRARY, word: int = 2) -> None:
        self.target = FakeTarget()
        self.target.loaded.append(Module(library, (Section(".text", TCMALLOC, TCMALLOC + 0x1000),)))
        self.target.ram.map(TCMALLOC, bytes(0x1000))
        self.target.ram.u32(WORD, word)

    def waiter(self, expected: int = 2) -> FakeThread:
        thread = self.target.waits(self.target.thread(), WORD, expected, timeout=TIMEOUT)
        (pc, sp), *rest = thread.frames
        thread.frames = [(pc, sp), (TCMALLOC + 0x10, sp + 0x40), *rest]
        return thread

    def holder(self) -> FakeThread:
        """A thread inside the allocator."""
        thread = self.target.thread()
        thread.frames.insert(0, (TCMALLOC + 0x80, thread.stack))
        thread.registers["rip"] = TCMALLOC + 0x80
        return thread

    def look(self) -> Report:
        return report_of(self.target)

    def lock(self) -> Lock:
        return lock_of(self.look(), WORD)


def test_only_thread_inside_holds_it() -> None:
    process = Process()
    waiter = process.waiter()
    process.holder()
    lock = process.lock()
    assert (lock.kind, lock.state) == ("allocator-lock", "locked")
    assert lock.holders == (Holder(2, EXCLUSIVE, INFERRED, INSIDE),)
    wait = thread_of(process.look(), waiter).waits
    assert wait is not None
    assert not wait.timed  # it sleeps again and again


def test_one_of_two_threads_inside() -> None:
    process = Process()
    process.waiter()
    process.holder()
    process.holder()
    assert (process.lock().holders, process.lock().candidates) == ((), (2, 3))


def test_threads_that_only_wait_do_not_hold_it() -> None:
    process = Process()
    process.waiter()
    process.waiter()
    assert (process.lock().holders, process.lock().candidates) == ((), ())


def test_free_lock_has_no_holder() -> None:
    process = Process(word=0)
    process.waiter()
    process.holder()
    assert (process.lock().state, process.lock().holders, process.lock().candidates) == ("free", (), ())


@pytest.mark.parametrize(("library", "word", "expected"), [
    ("/lib/libother.so", 2, 2), (LIBRARY, 3, 2), (LIBRARY, 2, 7)])
def test_other_words(library: str, word: int, expected: int) -> None:
    process = Process(library, word)
    process.waiter(expected)
    process.holder()
    assert process.lock().kind != "allocator-lock"
