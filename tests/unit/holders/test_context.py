from __future__ import annotations

import sys

import pytest

from gdbext.holders.context import holder_context
from gdbext.libraries import LIBRARIES
from gdbext.locks.seen import SeenLock, SeenWait
from gdbext.proofs.known_code import KnownCode
from gdbext.threads.gone import GoneOwners
from tests.support.contexts import context_of
from tests.support.fake_target import FakeTarget


@pytest.mark.parametrize("kind", sorted(kind for library in LIBRARIES for kind in library.finds_holders))
def test_library_finds_the_holders_of_its_kinds_if_a_thread_waits_for_one(kind: str) -> None:
    target = FakeTarget()
    target.thread()
    context, lock = context_of(target), SeenLock(kind, 0x1000, "locked")
    made = holder_context(context, GoneOwners(target, context.library.layouts, context.threads), [lock],
                          {1: SeenWait(lock=lock)}, KnownCode())
    library, = (library for library in LIBRARIES if kind in library.finds_holders)
    assert made.libraries.keys() == {*library.finds_holders}
    assert type(made.libraries[kind]).__module__ == f"gdbext.libraries.{library.folder}.holders"
    assert type(made.libraries[kind]).__module__ in sys.modules
    assert made.python_stacks(1) == []
