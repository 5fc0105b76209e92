"""A kind of lock without a rule of its own, in the files of a target."""

from __future__ import annotations

import pytest

from gdbext.proofs.flow.atomics import Inlined
from gdbext.proofs.functions import FunctionFinder, calls
from gdbext.proofs.pairs import Pairs
from gdbext.threads.code import read_code
from gdbext.threads.findings import Findings
from tests.support.reader_program import LIBC, Reader

ACQUIRES, RELEASES = calls("pthread_rwlock_rdlock"), calls("pthread_rwlock_unlock")
ACQUIRING, RELEASING = Inlined(4, frozenset((1,)), frozenset()), Inlined(4, frozenset(), frozenset(("compares",)))


def finder() -> FunctionFinder:
    target = Reader().target
    return FunctionFinder(target, read_code(target, Findings()), target.loaded[2:3])


def test_functions_of_a_row_are_found() -> None:
    found = Pairs(ACQUIRES, RELEASES).find(finder())
    assert found is not None
    assert [*found.acquiring] == [LIBC + 0x800]
    assert found.ending == {LIBC + 0x900}
    assert found.own == {LIBC + 0x800, LIBC + 0x900}
    assert not found.are_inlined


@pytest.mark.parametrize(("row", "is_found"), [
    (Pairs(calls("no_such_function"), RELEASES), False),
    (Pairs(inlined=ACQUIRING), True),
    (Pairs(inlined=RELEASING), False),
])
def test_row_counts_only_if_something_acquires(row: Pairs, is_found: bool) -> None:
    assert (row.find(finder()) is not None) is is_found


def test_hidden_functions_count_only_for_a_library_that_may_hide_them() -> None:
    row = Pairs(calls("no_such_function"), RELEASES)
    assert row.find(finder(), hidden=frozenset((LIBC + 0x800,))) is None
