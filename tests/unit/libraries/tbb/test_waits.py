from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

import pytest

from gdbext.arch import x86_64
from gdbext.glibc.futex import FutexWait
from gdbext.inferior.protocol import Module, Section, Symbol, ThreadRef
from gdbext.libraries.tbb.waits import Tbb
from gdbext.locks.seen import UNKNOWN, SeenLock
from gdbext.model.reasons import because
from gdbext.threads.threads import SeenThread
from tests.support.fake_memory import FakeMemory
from tests.support.scenes import scene_of

STACK, APP, LIBC, TBB = 0x7F00_0000_0000, 0x40_0000, 0x60_0000, 0x70_0000
SYSCALL, START = LIBC + 0x100, LIBC + 0x200
MUTEX_FUNCTION = "wait_on_address(void*, tbb::detail::d1::delegate_base&, unsigned long)"
CALLER, FUNCTION = APP + 0x105, TBB + 0x800
WORD = 0x5555_0000_0108


class Process:
    """A thread that sleeps in ``syscall``, which TBB has called; the parts of `Target` and `Code` that `Tbb` uses."""

    architecture, cpu = "x86_64", x86_64

    def __init__(self, pcs: Sequence[int], function: str | None = None, library: str = "libtbb.so.12.8") -> None:
        self.memory = FakeMemory({at: bytes(0x1000) for at in (APP, LIBC, TBB)})
        self.memory.write(CALLER - 5, b"\xe8" + (FUNCTION - CALLER).to_bytes(4, "little", signed=True))
        self.modules = [Module(path, (Section(".text", at, at + 0x1000),), at == APP)
                        for path, at in (("/app/server", APP), ("/lib/libc.so.6", LIBC), (f"/lib/{library}", TBB))]
        self.pcs, self.function = [SYSCALL, *pcs], function

    def find(self, expected: int = 2, op: int = 0x80) -> SeenLock | None:
        seen = SeenThread(ThreadRef(1, 101, None), x86_64, {"rip": SYSCALL, "rsp": STACK}, 0)
        return Tbb(scene_of(self)).find_lock(
            seen, FutexWait(WORD, op, expected, False))

    def unwind(self, thread: ThreadRef, registers: Mapping[str, int]) -> list[tuple[int, int]]:
        return [(pc, STACK + 64 * i) for i, pc in enumerate(self.pcs)]

    def module(self, address: int) -> Module | None:
        return next((module for module in self.modules if module.contains(address)), None)

    def symbol(self, address: int, index: int = 0) -> Symbol:
        return Symbol(self.function if address == FUNCTION else None)


@pytest.mark.parametrize("library", ["libtbb.so.12", "libtbb-1a2b3c.so.12", "libtbb.so.2"])
def test_worker_without_tasks(library: str) -> None:
    assert Process([TBB + 0x10, TBB + 0x20, START], library=library).find() == SeenLock(
        "tbb-wait", WORD, "idle", why=because("tbb-worker-idle"))


@pytest.mark.parametrize(("function", "state"), [
    ("tbb::detail::r1::wait(tbb::detail::d1::wait_context&, tbb::detail::d1::task_group_context&)",
     "waiting for tasks"),
    ("tbb::detail::r1::execute_and_wait(tbb::detail::d1::task&)", "waiting for tasks"),
    ("tbb::detail::r1::wait_bounded_queue_monitor(tbb::detail::r1::concurrent_monitor*, unsigned long)",
     "waiting for a queue")])
def test_thread_that_waits_in_a_function(function: str, state: str) -> None:
    lock = Process([TBB + 0x10, CALLER, START], function).find()
    assert lock is not None
    assert (lock.kind, lock.state, lock.held) == ("tbb-wait", state, UNKNOWN)


@pytest.mark.parametrize(("function", "kind"), [("wait", "tbb-tasks"), ("execute_and_wait", "tbb-tasks"),
                                                ("execute", "tbb-wait")])
def test_thread_whose_wait_is_recorded(function: str, kind: str) -> None:
    process = Process([TBB + 0x10, CALLER, START], f"tbb::detail::r1::{function}(tbb::detail::d1::wait_context&)")
    node, wait, head = WORD - 48, WORD + 0x100, WORD + 0x200
    process.memory.map(WORD - 0x104, bytes(0x1000))
    process.memory.write(node, struct.pack("<5QBB", 0, head, head, wait, 0, 1, 1))
    process.memory.write(wait, struct.pack("<QQ", 1, 2))
    process.memory.write(head, struct.pack("<QQ", node + 8, node + 8))
    lock = process.find()
    assert lock is not None
    assert (lock.kind, lock.address) == (kind, wait if kind == "tbb-tasks" else WORD)


@pytest.mark.parametrize(("delegate", "content", "kind", "state", "mode"), [
    ("15waitable_atomicIbE4waitEbmSt12memory_orderEUlvE_EE", 1, "tbb-mutex", "locked", "exclusive"),
    ("15waitable_atomicIbE4waitEbmSt12memory_orderEUlvE_EE", 0, "tbb-mutex", "free", "exclusive"),
    ("8rw_mutex4lockEvEUlvE_EE", 10, "tbb-rwlock", "read-locked", "exclusive"),
    ("8rw_mutex4lockEvEUlvE_EE", 3, "tbb-rwlock", "write-locked", "exclusive"),
    ("8rw_mutex11lock_sharedEvEUlvE_EE", 1, "tbb-rwlock", "write-locked", "shared")])
def test_thread_that_waits_for_a_mutex(delegate: str, content: int, kind: str, state: str, mode: str) -> None:
    process = Process([TBB + 0x10, CALLER, START], f"tbb::detail::r1::{MUTEX_FUNCTION}")
    memory, node, mutex, head = process.memory, WORD - 48, WORD + 0x100, WORD + 0x200
    memory.map(WORD - 0x108, bytes(0x1000))
    memory.write(node, struct.pack("<5QBB", 0, head, head, mutex, 0, 1, 1))
    memory.write(mutex, struct.pack("<Q", content))
    memory.write(head, struct.pack("<QQ", node + 8, node + 8))
    table, info, name, captured = (WORD + 0x300 + 0x80 * i for i in range(4))
    memory.write(table, struct.pack("<Q", info))
    memory.write(info + 8, struct.pack("<Q", name))
    memory.write(name, b"N3tbb6detail2d118delegated_functionIZNS1_" + delegate.encode())
    memory.write(captured, struct.pack("<Q", mutex))
    memory.map(STACK + 128, struct.pack("<8Q", 0, table + 8, captured, 0, 0, 0, 0, 0))  # the third frame
    lock = process.find()
    assert lock is not None
    assert (lock.kind, lock.address, lock.state, lock.mode) == (kind, mutex, state, mode)


@pytest.mark.parametrize("function", [
    "tbb::detail::r1::wait_on_address(void*, tbb::detail::d1::delegate_base&, unsigned long)", None])
def test_lock_of_tbb_or_unknown_function(function: str | None) -> None:
    assert Process([TBB + 0x10, CALLER, START], function).find() is None


def test_stack_that_is_cut_off() -> None:
    assert Process([TBB + 0x10, TBB + 0x20]).find() is None


@pytest.mark.parametrize(("expected", "op"), [(1, 0x80), (2, 0), (2, 0x189)])
def test_other_futex_operations(expected: int, op: int) -> None:
    assert Process([TBB + 0x10, START]).find(expected, op) is None


@pytest.mark.parametrize("library", ["libtbbmalloc.so.2", "libother.so"])
def test_other_libraries(library: str) -> None:
    assert Process([TBB + 0x10, START], library=library).find() is None
    assert Process([CALLER]).find() is None
