"""What is known of code is used for the next snapshot only if it is still right."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest

from gdbext.errors import MemoryUnreadable
from gdbext.inferior.budget import BudgetSpent
from gdbext.inferior.protocol import Module, Target
from gdbext.proofs.analysis import LockAnalysis
from gdbext.proofs.known_code import KnownCode
from gdbext.threads.code import Code
from tests.support.flow_program import ACQUIRE, EFFECTS, LINKS, MODULE, OTHER, RELEASE, Program

#: Its slot leads to a function that releases the lock, once the dynamic linker has filled it.
CALL_BY_SLOT = f"mov %rdi,%rbx\ncall acquire\nmov %rbx,%rdi\ncall *{LINKS:#x}\nhere: call other\nret"


class Process(Program):
    """A program with a list of files."""

    modules = (MODULE,)


def analysed(known: KnownCode, process: Process) -> LockAnalysis:
    target, code = cast(Target, process), cast(Code, process)
    known.continue_with(target, code)
    return known.get("mutex", lambda: LockAnalysis(target, code, EFFECTS))


def is_held(flow: LockAnalysis, process: Process) -> bool:
    state = flow.held_at(process.labels["f", "here"])
    return state is not None and bool(state.held)


def process_with(slot: int, *modules: Module) -> Process:
    process = Process(f=CALL_BY_SLOT)
    process.memory.write(LINKS, slot.to_bytes(8, "little"))
    process.modules = modules or (MODULE,)  # type: ignore[assignment]
    return process


def test_analysis_is_kept_for_the_same_files_and_slots() -> None:
    known, first, second = KnownCode(), process_with(OTHER), process_with(OTHER)
    flow = analysed(known, first)
    assert is_held(flow, first)
    assert analysed(known, second) is flow
    assert flow.code.program is cast(Code, second)
    assert is_held(flow, second)


@pytest.mark.parametrize(("second", "expected"), [
    (process_with(RELEASE), False),
    (process_with(ACQUIRE), True),
    (process_with(OTHER, replace(MODULE, path="/app/server (deleted)")), True),
    (process_with(OTHER, MODULE, replace(MODULE, path="/app/plugin.so")), True),
])
def test_analysis_is_made_anew_if_a_slot_or_a_file_has_changed(second: Process, expected: bool) -> None:
    known, first = KnownCode(), process_with(OTHER)
    flow = analysed(known, first)
    assert is_held(flow, first)
    anew = analysed(known, second)
    assert anew is not flow
    assert is_held(anew, second) == expected


def test_analysis_that_lacked_time_is_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    known, first = KnownCode(), process_with(OTHER)
    flow = analysed(known, first)

    def read(address: int, size: int) -> bytes:
        raise BudgetSpent(address, size)

    with monkeypatch.context() as patch:
        patch.setattr(first.memory, "read", read)
        assert not is_held(flow, first)
    anew = analysed(known, first)
    assert anew is not flow
    assert is_held(anew, first)


def test_memory_that_is_not_readable_is_compared_too() -> None:
    known, first, second = KnownCode(), process_with(OTHER), process_with(OTHER)
    flow = analysed(known, first)
    with pytest.raises(MemoryUnreadable):
        flow.code.memory.read(0x1000, 8)
    assert analysed(known, second) is flow
    second.memory.map(0x1000, bytes(8))
    assert analysed(known, second) is not flow


def test_function_that_is_not_known_is_analysed_after_the_snapshot() -> None:
    known, process = KnownCode(), process_with(OTHER)
    known.postpones = True
    flow = analysed(known, process)
    assert not is_held(flow, process)
    assert flow.is_behind
    known.catch_up()
    assert analysed(known, process) is flow
    assert is_held(flow, process)
    assert not known.is_behind
