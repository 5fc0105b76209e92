"""The budget of a snapshot: whatever a walk does, it ends, and what was read until then remains."""

from __future__ import annotations

import mmap
import signal
import time
from typing import Any

import pytest

from gdbext.errors import MemoryUnreadable, ThreadUnavailable
from gdbext.inferior.budget import Budget, BudgetedTarget, BudgetSpent, used_memory
from gdbext.inferior.cache import PAGE, CachedMemory, read_u64
from gdbext.inferior.protocol import Symbol, ThreadRef
from gdbext.model.reasons import because
from gdbext.narrate.reasons import explain
from tests.support.fake_memory import FakeMemory

BASE = 0x10000
THREAD = ThreadRef(1, 1, None)


def memory_with(budget: Budget, data: bytes = bytes(8 * PAGE)) -> CachedMemory:
    memory = CachedMemory(FakeMemory({BASE: data}))
    budget.watch(memory)
    return memory


def follow(memory: CachedMemory, at: int) -> None:
    """Walk a list without a bound."""
    while True:
        at = read_u64(memory, at)


def test_reads_beyond_the_budget_fail_and_known_pages_remain() -> None:
    budget = Budget(None, 2 * PAGE)
    memory = memory_with(budget)
    assert memory.read(BASE, 8) == memory.read(BASE + PAGE, 8) == bytes(8)
    with pytest.raises(BudgetSpent):
        memory.read(BASE + 2 * PAGE, 8)
    assert memory.read(BASE, 8) == bytes(8)
    assert budget.spent == because("budget-of-reads", size=2 * PAGE)


@pytest.mark.parametrize("size", [PAGE * 2, PAGE * 100])
def test_large_reads_draw_too(size: int) -> None:
    memory = memory_with(Budget(None, PAGE), bytes(PAGE * 100))
    with pytest.raises(MemoryUnreadable):
        memory.read(BASE, size)


def test_reads_after_the_time_fail() -> None:
    budget = Budget(0.0)
    with pytest.raises(BudgetSpent):
        memory_with(budget).read(BASE, 8)
    assert budget.spent == because("budget-of-time", seconds="0")


def test_endless_loop_over_a_page_that_was_read_ends() -> None:
    """A list that leads to itself: no bound, and no page that was not read before."""
    budget = Budget(0.2)
    memory = memory_with(budget, BASE.to_bytes(8, "little") + bytes(PAGE - 8))
    began = time.monotonic()
    with budget, pytest.raises(BudgetSpent):
        follow(memory, BASE)
    assert time.monotonic() - began < 5


def test_endless_loop_over_pages_that_were_not_read_ends() -> None:
    class Endless:
        def read(self, address: int, size: int) -> bytes:
            return (address + PAGE & (1 << 60) - 1).to_bytes(8, "little") * (size // 8)

    budget = Budget(None, 100 * PAGE)
    memory = CachedMemory(Endless())
    budget.watch(memory)
    with pytest.raises(BudgetSpent) as error:
        follow(memory, 0)
    assert error.value.address == 100 * PAGE


def test_time_is_not_watched_after_the_snapshot() -> None:
    budget = Budget(0.1)
    memory = memory_with(budget)
    with budget:
        memory.read(BASE, 8)
        assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == set()
    time.sleep(0.3)
    assert memory.read(BASE, 8) == bytes(8)


class Target:
    """Counts what is asked for."""

    def __init__(self) -> None:
        self.memory = CachedMemory(FakeMemory({BASE: bytes(PAGE)}))
        self.asked: list[str] = []
        self.pid = 7

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)

        def ask(*_arguments: object) -> Any:
            self.asked.append(name)
            return Symbol("f") if "symbol" in name else {"rip": 1} if "registers" in name else [(1, 2)]

        return ask


def test_target_gives_nothing_once_the_budget_is_spent() -> None:
    budget, under = Budget(None, 0), Target()
    target = BudgetedTarget(under, budget)
    assert target.frame_symbol(1) == Symbol("f")
    assert (target.registers(THREAD), target.frame_registers(THREAD, 0), target.symbol(1)) == (
        {"rip": 1}, {"rip": 1}, Symbol("f"))
    assert target.pid == 7
    results: list[object] = [target.unwind(THREAD, 10), target.variables(THREAD, 0), target.disassemble(1, 2)]
    assert results == [[(1, 2)]] * 3
    under.asked.clear()
    with pytest.raises(BudgetSpent):
        target.memory.read(BASE, 8)
    for ask in (target.registers, lambda thread: target.unwind(thread, 10)):
        with pytest.raises(ThreadUnavailable):
            ask(THREAD)
    assert (target.frame_registers(THREAD, 0), target.symbol(1)) == ({}, Symbol(None))
    assert target.frame_symbol(1) == Symbol(None)
    assert not target.variables(THREAD, 0)
    assert not target.disassemble(1, 2)
    assert under.asked == []


def test_snapshot_that_takes_much_memory_ends() -> None:
    """A decoder that keeps what it reads, and reads the same page forever."""
    budget = Budget(30.0, memory=64 << 20)
    memory = memory_with(budget)
    kept: list[bytes] = []

    def keep() -> None:
        while True:
            kept.append(memory.read(BASE, PAGE) * 64)

    with budget, pytest.raises(BudgetSpent):
        keep()
    assert budget.spent == because("budget-of-memory", size=64 << 20)
    assert len(kept) * 64 * PAGE > 60 << 20
    assert "64 MiB of memory" in explain(budget.spent)


def test_used_memory_grows_with_what_is_kept() -> None:
    before = used_memory()
    # memory from malloc() may have been in use before
    with mmap.mmap(-1, 32 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as kept:
        kept.write(b"x" * len(kept))
        assert used_memory() - before > 24 << 20


def test_frames_of_a_report_are_counted() -> None:
    budget = Budget(frames=10)
    assert budget.draw_frames(8)
    assert budget.left_out is None
    assert not budget.draw_frames(3)
    assert budget.draw_frames(2)
    assert not budget.draw_frames(1)
    assert budget.spent is None
    assert budget.left_out == because("budget-of-frames", count=2, most=10)
