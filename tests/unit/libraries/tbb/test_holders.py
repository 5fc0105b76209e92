from __future__ import annotations

import struct
from collections.abc import Sequence
from types import SimpleNamespace
from typing import cast

import pytest

from gdbext.arch import x86_64
from gdbext.arch.protocol import Syscall
from gdbext.inferior.protocol import Module, Section, Symbol, ThreadRef
from gdbext.libraries.tbb.holders import TbbTasks
from gdbext.locks.library_parts import FunctionCall, Holding
from gdbext.model.reasons import because
from gdbext.threads.threads import SeenThread, Threads
from tests.support.fake_memory import FakeMemory

PROGRAM, TBB, LIBC, DATA = (0x10_0000 * number for number in range(1, 5))
MODULES = [Module(f"/lib/{name}", (Section(".text", start, start + 0x1000),)) for name, start in (
    ("server", PROGRAM), ("libtbb.so.12", TBB), ("libc.so.6", LIBC))]
TASK, WAIT, TABLE, TYPE, NAME = DATA + 0x100, DATA + 0x200, DATA + 0x300, DATA + 0x400, DATA + 0x500
EXECUTE, WAITS, DEALLOCATES = PROGRAM + 0x800, TBB + 0x800, TBB + 0x900
#: Return addresses after a call in the task's function, in the library, and in the program.
IN_TASK, IN_TBB, ELSEWHERE = PROGRAM + 0x820, TBB + 0x20, PROGRAM + 0x20
NAMES = {WAITS: "tbb::detail::r1::wait(tbb::detail::d1::wait_context&)",
         DEALLOCATES: "tbb::detail::r1::deallocate(tbb::detail::d1::small_object_pool&, void*, unsigned long)"}


class FakeCode:
    """Finds modules by address, and the names of the library's functions."""

    cpu = x86_64

    def module(self, address: int) -> Module | None:
        return next((module for module in MODULES if module.contains(address)), None)

    def symbol(self, address: int, index: int = 0) -> Symbol:
        return Symbol(NAMES.get(address))


def memory_with_task(called: int) -> FakeMemory:
    """The memory of a task, with a call of a function before `IN_TASK`."""
    memory = FakeMemory(dict.fromkeys((PROGRAM, TBB, LIBC, DATA), bytes(0x1000)))
    memory.write(IN_TASK - 5, b"\xe8" + struct.pack("<i", called - IN_TASK))
    memory.write(TASK, struct.pack("<Q", TABLE))
    memory.write(TASK + 72, struct.pack("<Q", WAIT))
    memory.write(TABLE - 8, struct.pack("<4Q", TYPE, 0, 0, EXECUTE))
    memory.write(TYPE + 8, struct.pack("<Q", NAME))
    memory.write(NAME, b"N3tbb6detail2d213function_taskI")
    memory.write(WAIT, struct.pack("<QQ", 1, 1))
    return memory


def found(stack: Sequence[int], called: int = LIBC, argument: int | None = TASK, is_inside: bool = True,
          wait: int = WAIT) -> list[int]:
    """The threads that run a task of a wait, among one with a stack that is inside of a system call or not."""
    seen = SeenThread(ThreadRef(1, 101, None), x86_64, {"rsp": 0}, frames=[(pc, 0) for pc in stack],
                      call=Syscall(202, "futex", (0,) * 6, is_inside))
    gone = SeenThread(ThreadRef(2, 102, None), x86_64, unavailable=because("text", text="gone"))
    scene = SimpleNamespace(threads=Threads([seen, gone], 101), code=FakeCode(), memory=memory_with_task(called))
    holding = SimpleNamespace(scene=scene, call_of=lambda seen, index: FunctionCall(EXECUTE, argument) if (
        argument is not None and seen.native(None)[index][0] == IN_TASK) else None)
    return [*TbbTasks(cast(Holding, holding)).threads_running(wait)]


def test_thread_that_runs_a_task() -> None:
    assert found([LIBC, IN_TASK, IN_TBB, ELSEWHERE, LIBC]) == [1]


def test_task_that_waits_for_tasks() -> None:
    assert found([LIBC, IN_TBB, IN_TASK, IN_TBB, ELSEWHERE, LIBC], WAITS) == [1]


@pytest.mark.parametrize("called", [DEALLOCATES, TBB + 0xA00])
def test_task_that_may_have_ended(called: int) -> None:
    assert found([LIBC, IN_TBB, IN_TASK, IN_TBB, ELSEWHERE, LIBC], called) == []


def test_function_of_a_task_that_the_library_has_not_called() -> None:
    assert found([LIBC, IN_TASK, ELSEWHERE, IN_TBB, LIBC]) == []
    assert found([IN_TASK, IN_TBB, LIBC]) == []


def test_task_of_another_wait_or_unknown_task() -> None:
    assert found([LIBC, IN_TASK, IN_TBB, LIBC], wait=WAIT + 64) == []
    assert found([LIBC, IN_TASK, IN_TBB, LIBC], argument=None) == []


def test_thread_that_is_not_inside_a_system_call() -> None:
    assert found([LIBC, IN_TASK, IN_TBB, ELSEWHERE, LIBC], is_inside=False) == []
