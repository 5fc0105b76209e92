"""The address that a value of the analysis stands for, by the registers and the stack of a frame."""

from __future__ import annotations

import pytest

from gdbext.arch import x86_64
from gdbext.proofs.flow.state import CONSTANT, Place, State, Value, entry
from gdbext.proofs.stack import recompute
from tests.support.fake_memory import FakeMemory

STACK, LOCK = 0x7000, 0x5000
TOP = entry("rsp").plus(-0x20)


def recomputed(lock: Value, words: dict[Place, Value], **registers: int) -> int | None:
    """The address of a lock where the stack pointer has been lowered by 32 bytes; `words` are known words of memory."""
    state = State.at_entry(x86_64)
    state.values = {"rsp": TOP, "rbx": entry("rdi").plus(8), **words}
    memory = FakeMemory({STACK: LOCK.to_bytes(8, "little") * 8})
    return recompute(memory, x86_64, lock, state, {"rsp": STACK, **registers})


def test_constant_needs_no_register() -> None:
    assert recomputed(Value(CONSTANT, LOCK), {}) == LOCK


def test_register_that_contains_a_value_near_it_shows_it() -> None:
    assert recomputed(entry("rdi").plus(0x10), {}, rbx=LOCK + 8) == LOCK + 0x10
    assert recomputed(entry("rsi"), {}, rbx=LOCK + 8) is None
    assert recomputed(entry("rdi"), {}) is None, "the register is not known"


@pytest.mark.parametrize(("rbx", "address"), [(LOCK + 8, LOCK), (LOCK + 0x40, None)])
def test_places_that_contradict_each_other_show_nothing(rbx: int, address: int | None) -> None:
    assert recomputed(entry("rdi"), {TOP.plus(8): entry("rdi")}, rbx=rbx) == address


def test_word_that_the_call_gets_a_pointer_to_may_have_changed() -> None:
    words: dict[Place, Value] = {TOP.plus(8): entry("rsi")}
    assert recomputed(entry("rsi"), words) == LOCK
    state = State.at_entry(x86_64)
    state.values = {"rsp": TOP, "rdi": TOP, **words}
    memory = FakeMemory({STACK: LOCK.to_bytes(8, "little") * 8})
    assert recompute(memory, x86_64, entry("rsi"), state, {"rsp": STACK}) is None
