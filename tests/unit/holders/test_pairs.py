from __future__ import annotations

from gdbext.holders import pairs
from gdbext.holders.pairs import pairs_of
from gdbext.model.kinds import all_kinds, kind_of

PAIRS = {kind: pairs_of(kind) for kind in pairs.KINDS}


def test_rows_are_of_locks_that_threads_hold() -> None:
    assert PAIRS.keys() <= all_kinds().keys()
    events = {kind for kind in PAIRS if kind_of(kind).is_event}
    assert events == {kind for kind, row in PAIRS.items() if row.others_release}, "any thread may end such a wait"


def test_what_acquires_can_be_released() -> None:
    for kind, row in PAIRS.items():
        assert bool(row.acquires) == bool(row.releases), kind
        assert row.acquires or row.runs or row.inlined, kind


def test_no_function_both_acquires_and_releases() -> None:
    for kind, row in PAIRS.items():
        acquires, releases = {call.name for call in row.acquires}, {call.name for call in row.releases}
        assert not acquires & releases, kind
        functions = (*row.acquires, *row.may_acquire, *row.releases, *row.runs, *row.suspends)
        assert len(functions) == len({call.name for call in functions}), kind
