from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import pytest

from gdbext.arch import x86_64
from gdbext.holders.pool_jobs import PoolThreads, threads_of_pool
from gdbext.inferior.protocol import Module, Section, Symbol, ThreadRef
from gdbext.locks.seen import SeenLock
from gdbext.model.reasons import ReasonCode, because
from gdbext.threads.code import Code
from gdbext.threads.site import Sites
from gdbext.threads.threads import SeenThread, Threads
from tests.support.fake_memory import FakeMemory

PROGRAM, POOL, OTHER, LIBC, GENERATED = (0x10_0000 * number for number in range(1, 6))
MODULES = [Module(f"/lib/{name}", (Section(".text", start, start + 0x1000),)) for name, start in (
    ("python", PROGRAM), ("polars.abi3.so", POOL), ("_other.so", OTHER), ("libc.so.6", LIBC))]
#: The stack of a thread that a file's code has started, without the frames inside.
STARTED = (LIBC, LIBC)
WAITING = (LIBC, POOL, PROGRAM, LIBC, PROGRAM)


class FakeCode:
    """Finds modules by address; functions have no names."""

    cpu = x86_64

    def module(self, address: int) -> Module | None:
        return next((module for module in MODULES if module.contains(address)), None)

    def symbol(self, address: int, index: int = 0) -> Symbol:
        return Symbol(None)


def found(*stacks: Sequence[int], waits: Mapping[int, ReasonCode] | None = None,
          unavailable: bool = False) -> PoolThreads | None:
    """The threads that may finish the job which the first of these threads waits for."""
    threads = Threads([SeenThread(ThreadRef(number, 100 + number, None), x86_64, {"rsp": 0},
                                  frames=[(pc, 0) for pc in stack],
                                  unavailable=because("text", text="gone") if unavailable and number > 1 else None)
                       for number, stack in enumerate(stacks, 1)], 101)
    code = cast(Code, FakeCode())
    waited = {number: SeenLock("condvar", 0x10, "", why=because(why)) for number, why in (waits or {}).items()}
    memory = FakeMemory(dict.fromkeys((PROGRAM, POOL, OTHER, LIBC), b"\x90" * 4096))
    return threads_of_pool(threads, code, Sites(memory, code, MODULES[3:]), (1,), waited)


@pytest.mark.parametrize(("stack", "may_finish"), [
    ((LIBC, POOL, *STARTED), True),
    ((LIBC, OTHER, PROGRAM, POOL, *STARTED), True),  # a job that calls other code
    ((LIBC, OTHER, *STARTED), False),
    ((LIBC, PROGRAM, OTHER, PROGRAM, *STARTED), False),
    (STARTED, True),  # it has only begun, so it may be a new thread of the pool
    ((LIBC, OTHER, GENERATED), True),  # the stack ends in code without a frame description
    ((LIBC, OTHER), True),  # the same, in a file
    ((), True),
])
def test_thread_without_code_of_the_file_cannot_finish_a_job(stack: tuple[int, ...], may_finish: bool) -> None:
    assert found(WAITING, stack) == PoolThreads((2,) if may_finish else (), "polars.abi3.so")


def test_first_thread_ends_in_the_program() -> None:
    assert found(WAITING, (LIBC, POOL, *STARTED), WAITING) == PoolThreads((2, 3), "polars.abi3.so")


@pytest.mark.parametrize(("why", "may_finish"), [
    ("numba-worker-idle", False), ("rayon-worker-idle", True), ("condvar-has-no-owner", True)])
def test_idle_worker_of_numba_has_no_part_to_finish(why: ReasonCode, may_finish: bool) -> None:
    """A job of rayon may have been given to an idle worker, which is about to wake up."""
    threads = found(WAITING, (LIBC, POOL, *STARTED), waits={2: why})
    assert threads == PoolThreads((2,) if may_finish else (), "polars.abi3.so")


def test_nothing_is_known_if_a_thread_cannot_be_read() -> None:
    assert found(WAITING, (LIBC, POOL, *STARTED), unavailable=True) is None


def test_nothing_is_known_if_the_waiting_thread_is_in_no_file() -> None:
    assert found((LIBC, GENERATED), (LIBC, POOL, *STARTED)) is None
