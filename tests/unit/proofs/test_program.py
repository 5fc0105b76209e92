"""The memory from which code is analysed compares what the program may have written."""

from __future__ import annotations

from typing import cast

import pytest

from gdbext.errors import MemoryUnreadable
from gdbext.inferior.budget import BudgetSpent
from gdbext.proofs.program import CodeMemory, Program
from tests.support import flow_program
from tests.support.fake_memory import FakeMemory

DATA = 0x5000
PROGRAM = cast(Program, flow_program.Program(f="ret"))


@pytest.mark.parametrize(("data", "is_same"), [(b"\1" * 8, True), (b"\1" * 7 + b"\2", False)])
def test_memory_that_was_read_is_compared(data: bytes, is_same: bool) -> None:
    memory = CodeMemory(FakeMemory({DATA: b"\1" * 8}), PROGRAM)
    assert memory.read(DATA, 8) == b"\1" * 8
    assert memory.continue_with(FakeMemory({DATA: data}), PROGRAM) is is_same


def test_memory_that_was_not_readable_must_not_become_readable() -> None:
    memory = CodeMemory(FakeMemory(), PROGRAM)
    with pytest.raises(MemoryUnreadable):
        memory.read(DATA, 8)
    assert memory.continue_with(FakeMemory(), PROGRAM)
    assert not memory.continue_with(FakeMemory({DATA: bytes(8)}), PROGRAM)


def test_memory_that_was_not_read_for_lack_of_time_is_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(address: int, size: int) -> bytes:
        raise BudgetSpent(address, size)

    source = FakeMemory()
    monkeypatch.setattr(source, "read", read)
    memory = CodeMemory(source, PROGRAM)
    with pytest.raises(MemoryUnreadable):
        memory.read(DATA, 8)
    assert not memory.continue_with(FakeMemory(), PROGRAM)
