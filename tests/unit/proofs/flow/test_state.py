"""Values of registers and words of memory."""

from __future__ import annotations

from gdbext.arch import x86_64
from gdbext.proofs.flow.state import State, entry

STACK = entry("rsp")


def at_entry() -> State:
    return State.at_entry(x86_64)


def test_stores_through_unknown_pointers_spare_the_own_frame() -> None:
    state = at_entry()
    state.store(STACK.plus(-8), 8, entry("rdi"))
    state.store(entry("rsi"), 8, entry("rdx"))
    assert state.values[STACK.plus(-8)] == entry("rdi")
    state.store(entry("rcx"), 8, None)
    assert entry("rsi") not in state.values
    state.store(STACK.plus(-12), 8, None)
    assert STACK.plus(-8) not in state.values
