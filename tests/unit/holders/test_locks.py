from __future__ import annotations

from gdbext.holders.locks import find_locks
from gdbext.model import EXCLUSIVE, RECORDED, Hold, Waiter
from gdbext.proofs.known_code import KnownCode
from gdbext.threads.gone import GoneOwners
from gdbext.waits.recognisers import find_waits
from tests.support.contexts import context_of
from tests.support.fake_target import FakeTarget


def test_each_lock_has_its_waiters_and_each_thread_what_it_holds() -> None:
    target = FakeTarget()
    holder, first, second = target.thread(), target.thread(), target.thread()
    mutex = target.mutex(holder.ref.lwp)
    for thread in (first, second):
        target.waits_for_mutex(thread, mutex)
    context = context_of(target)
    found = find_locks(context, find_waits(context), GoneOwners(target, context.library.layouts, context.threads),
                       KnownCode())
    lock, = found.locks.values()
    assert lock.waiters == (Waiter(first.ref.number, EXCLUSIVE), Waiter(second.ref.number, EXCLUSIVE))
    assert found.holds == {holder.ref.number: [Hold(lock.id, EXCLUSIVE, RECORDED)]}
