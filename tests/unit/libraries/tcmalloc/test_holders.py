"""The threads inside of tcmalloc."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import cast

import pytest

from gdbext.arch import x86_64
from gdbext.inferior.protocol import Module, Section, Symbol, ThreadRef
from gdbext.libraries.tcmalloc.holders import Inside
from gdbext.locks.library_parts import Holding
from gdbext.locks.seen import SeenLock
from gdbext.threads.code import Code
from gdbext.threads.site import Sites
from gdbext.threads.threads import SeenThread, Threads
from tests.support.fake_memory import FakeMemory

APP, LIBC, TCMALLOC = 0x40_1000, 0x7E00_0001_0000, 0x7E00_0020_0000
MODULES = [Module(path, (Section(".text", start, start + 0x1000),)) for path, start in (
    ("/app/server", APP), ("/lib/libc.so.6", LIBC), ("/lib/libtcmalloc.so.4", TCMALLOC))]
SLEEP, TRAMPOLINE, WORK, MAIN = LIBC + 0x110, LIBC + 0x300, APP + 0x10, APP + 0x410
IN_LIBRARY, SPINS = TCMALLOC + 0x510, TCMALLOC + 0x700


class FakeCode:
    """Finds modules by address, and the name of one function."""

    cpu = x86_64

    def module(self, address: int) -> Module | None:
        return next((module for module in MODULES if module.contains(address)), None)

    def symbol(self, address: int, index: int = 0) -> Symbol:
        return Symbol("SpinLock::SlowLock()" if address >= SPINS else None)


def found(*stacks: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The holders and candidates of the lock that the first of these threads waits for."""
    memory = FakeMemory(dict.fromkeys((APP, LIBC, TCMALLOC), b"\x90" * 0x1000))
    memory.write(TRAMPOLINE, b"\x48\xc7\xc0\x0f\x00\x00\x00\x0f\x05")
    threads = Threads([SeenThread(ThreadRef(number, 100 + number, None), x86_64, {"rsp": 0},
                                  frames=[(pc, 0) for pc in stack]) for number, stack in enumerate(stacks, 1)], 101)
    code = cast(Code, FakeCode())
    scene = SimpleNamespace(code=code, threads=threads, sites=Sites(memory, code, MODULES[1:2]), memory=memory)
    lock = Inside(cast(Holding, SimpleNamespace(scene=scene))).find(
        SeenLock("allocator-lock", 0x1000, "locked"), [1])
    assert lock is not None
    return tuple([holder.thread for holder in lock.holders]), lock.candidates


def test_library_that_one_thread_is_inside() -> None:
    stacks = [[SLEEP, IN_LIBRARY, WORK], [WORK, IN_LIBRARY, MAIN], [SLEEP, WORK]]
    assert found(*stacks) == ((2,), ())
    assert found(*stacks, [IN_LIBRARY, MAIN]) == ((), (2, 4))


def test_thread_awake_in_the_loop_of_a_spin_lock_may_be_a_waiter() -> None:
    assert found([SLEEP, IN_LIBRARY, WORK], [SPINS + 8, IN_LIBRARY, MAIN]) == ((), (2,))


@pytest.mark.parametrize("interrupted", [True, False])
def test_library_that_a_signal_interrupted(interrupted: bool) -> None:
    stack = [SLEEP, IN_LIBRARY, WORK, TRAMPOLINE, IN_LIBRARY if interrupted else WORK, MAIN]
    assert found(stack) == ((1,) if interrupted else (), ())
