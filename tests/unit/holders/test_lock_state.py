"""What is known at one place: values of registers and words of memory, and locks; and where two paths meet."""

from __future__ import annotations

from gdbext.arch import x86_64
from gdbext.holders.lock_state import CONSTANT, State, Value, entry, in_both, meet

HERE = 0x1000
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


def test_lock_may_be_the_one_that_is_released() -> None:
    state = at_entry()
    first, second, other = entry("rdi"), entry("rdi").plus(0x40), Value(CONSTANT, 0x5000)
    state.held = {lock: frozenset() for lock in (first, other)}
    state.release(second)
    assert set(state.held) == {first}
    state.held[other] = frozenset()
    state.release(Value(CONSTANT, 0x6000))
    assert state.held == {first: frozenset({0x6000}), other: frozenset()}
    state.release(None)
    assert state.held == {}


def test_release_of_a_held_lock_releases_no_other_one() -> None:
    """If two locks that are held were the same, it would be acquired twice, and held until the second release."""
    state = at_entry()
    first, second, other = entry("rdi"), entry("rsi"), Value(CONSTANT, 0x5000)
    state.held = {lock: frozenset() for lock in (first, second, other)}
    state.attempts = {entry("rax").base: (entry("r12"), True), entry("rdx").base: (second, True)}
    state.release(second)
    assert set(state.held) == {first, other}
    assert state.attempts == {entry("rax").base: (entry("r12"), True)}
    state.release(other)
    assert set(state.held) == {first}
    state.release(second)  # by a caller, or an unknown one
    assert state.held == {}


def test_branch_decides_an_attempt() -> None:
    result = entry("rax").base
    for is_zero, held in ((True, {entry("rdi")}), (False, set())):
        state = at_entry()
        state.attempts = {result: (entry("rdi"), True)}
        state.flags(None, result)
        state.branch(is_zero)
        assert set(state.held) == held


def test_paths_have_in_common_what_both_have() -> None:
    one, two = at_entry(), at_entry()
    one.held, two.held = {entry("rdi"): frozenset({1}), entry("rsi"): frozenset()}, {entry("rdi"): frozenset({2})}
    two.values["rbx"] = entry("rdi")
    met = meet(HERE, meet(HERE, None, one), two)
    assert met.held == {entry("rdi"): frozenset({1, 2})}
    assert met.values["rbx"] == Value(("met", HERE, "rbx"), 0)
    assert met.values["r12"] == entry("r12")
    assert meet(HERE, met, two).is_same(met)


def test_nothing_is_held_on_no_path() -> None:
    assert in_both(None, {entry("rdi"): frozenset()}) == {entry("rdi"): frozenset()}
    assert in_both({}, {entry("rdi"): frozenset()}) == {}
