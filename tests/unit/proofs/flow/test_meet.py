"""The state where two paths meet."""

from __future__ import annotations

from gdbext.arch import x86_64
from gdbext.proofs.flow.meet import meet
from gdbext.proofs.flow.state import State, Value, entry

HERE = 0x1000


def at_entry() -> State:
    return State.at_entry(x86_64)


def test_paths_have_in_common_what_both_have() -> None:
    one, two = at_entry(), at_entry()
    one.held, two.held = {entry("rdi"): frozenset({1}), entry("rsi"): frozenset()}, {entry("rdi"): frozenset({2})}
    two.values["rbx"] = entry("rdi")
    met = meet(HERE, meet(HERE, None, one), two)
    assert met.held == {entry("rdi"): frozenset({1, 2})}
    assert met.values["rbx"] == Value(("met", HERE, "rbx"), 0)
    assert met.values["r12"] == entry("r12")
    assert meet(HERE, met, two).is_same(met)
