"""The locks of a state: which are held, and which may be released."""

from __future__ import annotations

from gdbext.arch import x86_64
from gdbext.proofs.flow.locks import decide, in_both, release
from gdbext.proofs.flow.state import CONSTANT, State, Value, entry


def at_entry() -> State:
    return State.at_entry(x86_64)


def test_lock_may_be_the_one_that_is_released() -> None:
    state = at_entry()
    first, second, other = entry("rdi"), entry("rdi").plus(0x40), Value(CONSTANT, 0x5000)
    state.held = {lock: frozenset() for lock in (first, other)}
    release(state, second)
    assert set(state.held) == {first}
    state.held[other] = frozenset()
    release(state, Value(CONSTANT, 0x6000))
    assert state.held == {first: frozenset({0x6000}), other: frozenset()}
    release(state, None)
    assert state.held == {}


def test_release_of_a_held_lock_releases_no_other_one() -> None:
    """If two locks that are held were the same, it would be acquired twice, and held until the second release."""
    state = at_entry()
    first, second, other = entry("rdi"), entry("rsi"), Value(CONSTANT, 0x5000)
    state.held = {lock: frozenset() for lock in (first, second, other)}
    state.attempts = {entry("rax").base: (entry("r12"), True), entry("rdx").base: (second, True)}
    release(state, second)
    assert set(state.held) == {first, other}
    assert state.attempts == {entry("rax").base: (entry("r12"), True)}
    release(state, other)
    assert set(state.held) == {first}
    release(state, second)  # by a caller, or an unknown one
    assert state.held == {}


def test_branch_decides_an_attempt() -> None:
    result = entry("rax").base
    for is_zero, held in ((True, {entry("rdi")}), (False, set())):
        state = at_entry()
        state.attempts = {result: (entry("rdi"), True)}
        state.flags(None, result)
        decide(state, is_zero)
        assert set(state.held) == held


def test_nothing_is_held_on_no_path() -> None:
    assert in_both(None, {entry("rdi"): frozenset()}) == {entry("rdi"): frozenset()}
    assert in_both({}, {entry("rdi"): frozenset()}) == {}
