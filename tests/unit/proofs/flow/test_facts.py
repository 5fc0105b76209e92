"""What is recorded while the settled states of a function are followed once more."""

from __future__ import annotations

from gdbext.arch import x86_64
from gdbext.proofs.flow.facts import Facts, origin_of, stores_of
from gdbext.proofs.flow.state import CONSTANT, State, Value, entry

STACK_POINTER = x86_64.STACK_POINTER


def test_release_of_a_lock_that_is_not_held_is_one_of_a_callers_lock() -> None:
    facts, state = Facts(), State.at_entry(x86_64)
    state.held = {entry("rdi"): frozenset()}
    facts.block = 0x1000
    for lock in (entry("rdi"), entry("rsi"), None):
        facts.release(lock, state)
    assert facts.given_back == {entry("rdi")}
    assert facts.released == [(0x1000, entry("rsi")), (0x1000, None)]


def test_nothing_is_recorded_before_states_are_settled() -> None:
    facts, state = Facts(), State.at_entry(x86_64)
    facts.note_call(0x2000, state)
    facts.note_store(entry("rdi"), state)
    facts.release(entry("rdi"), state)
    assert (facts.calls, facts.stored, facts.released) == ([], [], [])


def test_stores_to_the_own_frame_are_no_stores_for_a_caller() -> None:
    facts, state = Facts(), State.at_entry(x86_64)
    facts.block = 0x1000
    for at in (entry(STACK_POINTER).plus(-8), entry("rsi").plus(8), Value(CONSTANT, 0x5000), None):
        facts.note_store(at, state)
    assert facts.stored == [(0x1000, "rsi"), (0x1000, None), (0x1000, None)]


def test_stores_of_a_callee_are_those_of_the_registers_that_its_arguments_come_from() -> None:
    origins = {"rdi": origin_of(entry("rsi")), "rsi": origin_of(entry(STACK_POINTER)),
               "rdx": origin_of(Value(CONSTANT, 0x5000)), "rcx": origin_of(None)}
    assert stores_of(frozenset(("rdi", "rsi")), origins, STACK_POINTER) == {"rsi"}
    assert stores_of(frozenset(("rsi",)), origins, STACK_POINTER) == set()
    for name in ("rdx", "rcx", None):
        assert stores_of(frozenset((name,)), origins, STACK_POINTER) == {None}
