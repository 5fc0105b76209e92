"""`rwlock-owner` and `lock-owner`: one lock, or every lock that a thread waits on."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace

from gdbext.commands.arguments import JSON
from gdbext.commands.base import Command, Result
from gdbext.commands.narrow import only
from gdbext.errors import GdbextError
from gdbext.model import Lock, Report
from gdbext.model.kinds import RWLOCK, LockKind
from gdbext.model.reasons import Reason
from gdbext.narrate.reasons import explain
from gdbext.snapshot import Snapshot

RWLOCK_HELP = """Show who holds a pthread_rwlock_t and who waits for it.

Usage: rwlock-owner [--json] [ADDRESS]

ADDRESS is a GDB expression for the lock, such as &table_lock or 0x7f5a10c0; the
futex word inside the lock, which a blocked thread has in its registers, will do
as well and is told. Without ADDRESS: every rwlock that a thread waits on.

A writer is recorded in the lock. Readers are counted, not recorded: threads that
have the lock's address on their stacks are told as holders when they are just as
many as the lock counts (inferred), and as candidates otherwise.

No debug information is used: a debug type that belongs to another C library
would show wrong members.

  --json   print one JSON document, schema gdbext/1

Example:
  (gdb) rwlock-owner 0x55d2c8f0
  Rwlock 0x55d2c8f0 in libdrv.so, write-locked by thread 2 "worker"

Related: lock-owner, py-deadlocks."""

LOCK_HELP = """Show who holds a lock of any known kind and who waits for it.

Usage: lock-owner [--json] [ADDRESS]

ADDRESS is a GDB expression. The kind is found out: from the system call of a
thread that waits there, or else from what the memory looks like. Without
ADDRESS: every lock that a thread waits on.

  --json   print one JSON document, schema gdbext/1

Example:
  (gdb) lock-owner &accounts
  Mutex 0x404060 accounts in bank, held by thread 3

Related: rwlock-owner, py-deadlocks, py-threads-locks."""

_PARTS = ("threads", "locks", "problems")


def _result(report: Report, locks: Sequence[Lock], note: Reason | None) -> Result:
    involved = {waiter.thread for lock in locks for waiter in lock.waiters}
    involved |= {holder.thread for lock in locks for holder in lock.holders}
    involved |= {number for lock in locks for number in lock.candidates}
    # what the holders themselves wait for is told too
    onward = {thread.waits.lock for thread in report.threads if thread.number in involved and thread.waits}
    notes = (*report.notes, note) if note else report.notes
    # without its deadlocks the locks that only they name go too
    shown = only(replace(report, deadlocks=(), notes=notes), involved, {lock.id for lock in locks} | onward)
    return Result(shown, _PARTS, lambda text: text.locks(locks))


def _look(snapshot: Snapshot, addresses: Sequence[int], kind: LockKind | None) -> Result:
    note = None
    if addresses:
        lock, note = snapshot.lock_at(addresses[0], kind)
        what = kind or "lock of a known kind"
        if lock is None or (kind is not None and lock.kind != kind):
            found = "the memory fits none" if note is None else explain(note)
            if lock is not None:
                found = f"it is a {lock.kind}, held or waited for"
            raise GdbextError(f"there is no {what} at {addresses[0]:#x} ({found})",
                              "without an address the command lists every lock that a thread waits on")
        holders = {holder.thread for holder in lock.holders}
        report = snapshot.report(lambda thread: thread.number in holders, lock)
        return _result(report, [other for other in report.locks if other.id == lock.id], note)
    chosen = {lock.id for lock in snapshot.locks() if kind in (None, lock.kind) and lock.waiters}
    holders = {holder.thread for lock in snapshot.locks() if lock.id in chosen for holder in lock.holders}
    report = snapshot.report(lambda thread: thread.number in holders)
    return _result(report, [lock for lock in report.locks if lock.id in chosen], None)


def _run_rwlock(snapshot: Snapshot, arguments: Namespace, addresses: Sequence[int]) -> Result:
    return _look(snapshot, addresses, RWLOCK)


def _run_lock(snapshot: Snapshot, arguments: Namespace, addresses: Sequence[int]) -> Result:
    return _look(snapshot, addresses, None)


RWLOCK_OWNER = Command("rwlock-owner", RWLOCK_HELP, (JSON,), "address", _run_rwlock)
LOCK_OWNER = Command("lock-owner", LOCK_HELP, (JSON,), "address", _run_lock)
