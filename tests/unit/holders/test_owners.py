from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from gdbext.errors import MemoryUnreadable
from gdbext.holders.context import HolderContext
from gdbext.holders.owners import by_machine_code
from gdbext.locks.seen import FREE, SeenLock
from gdbext.model import EXCLUSIVE, RECORDED, Holder
from gdbext.snapshot import take_snapshot
from tests.support.fake_target import APP_DATA, LIBC_TEXT, FakeTarget
from tests.support.snapshots import gil_and_rwlock, lock_of, report_of


def test_owner_in_another_process_is_not_an_orphan() -> None:
    target = FakeTarget()
    mutex = target.mutex(4242, __kind=0x80)
    target.name(LIBC_TEXT + 0x100, "pthread_mutex_lock")
    target.waits(target.thread(), mutex, 2, 0)
    report = report_of(target)
    lock = lock_of(report, mutex)
    assert (lock.orphan, lock.foreign_owner, report.deadlocks) == (None, 4242, ())


def test_lock_in_a_module_has_its_name() -> None:
    target = FakeTarget()
    target.thread()
    mutex = APP_DATA + 0x40
    target.build.put("pthread_mutex_t", mutex, __lock=2, __owner=100, __nusers=1)
    target.waits_for_mutex(target.thread(), mutex)
    assert lock_of(report_of(target), mutex).name == "in server"
    target.name(mutex, "accounts")
    assert lock_of(report_of(target), mutex).name == "accounts in server"


def test_lock_at_an_address() -> None:
    target, _, _, lock = gil_and_rwlock("3.12.1")
    snapshot = take_snapshot(target)
    for offset in (0, 4, 8, 12, 24, 48):
        found, note = snapshot.lock_at(lock + offset)
        assert found is not None
        assert (found.kind, found.address, [holder.thread for holder in found.holders]) == ("rwlock", lock, [2])
        assert (note is None) == (offset == 0)
    gil, _ = snapshot.lock_at(target.python.gil_of(target.interpreter) + 32)
    assert gil is not None
    assert gil.id == "gil:0"


def test_lock_at_an_address_without_waiters() -> None:
    target = FakeTarget()
    holder = target.thread()
    mutex = target.mutex(holder.ref.lwp, __lock=1)
    found, note = take_snapshot(target).lock_at(mutex)
    assert found is not None
    assert (found.kind, found.holders, found.waiters, note) == ("mutex", (Holder(1, EXCLUSIVE, RECORDED),), (), None)


def test_lock_at_an_address_that_is_none() -> None:
    target = FakeTarget()
    target.thread()
    target.ram.map(0x5000, b"\xff" * 0x100)
    assert take_snapshot(target).lock_at(0x5080) == (None, None)
    with pytest.raises(MemoryUnreadable):
        take_snapshot(target).lock_at(0xDEAD_0000)


@pytest.mark.parametrize(("state", "is_searched"), [("write-locked", True), (FREE, False)])
def test_free_lock_has_no_proven_holder(state: str, is_searched: bool) -> None:
    """A thread that was woken may be about to acquire it."""
    lock = SeenLock("absl-mutex", 0x1000, state)
    context = cast(HolderContext, SimpleNamespace(finder=SimpleNamespace(prove=lambda lock, waiters: lock)))
    assert (by_machine_code(lock, (1,), context) is not None) == is_searched
