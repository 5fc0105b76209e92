"""`rwlock-owner` and `lock-owner`: one lock, or every lock that a thread waits for."""

from __future__ import annotations

import functools
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace

from gdbext.commands.arguments import JSON
from gdbext.commands.base import Command, Result, filter_report
from gdbext.errors import GdbextError
from gdbext.model import Lock
from gdbext.model.kinds import RWLOCK, LockKind
from gdbext.model.reasons import Reason
from gdbext.narrate.reasons import explain
from gdbext.snapshot import Snapshot

RWLOCK_HELP = """Show the holders of a pthread_rwlock_t and the threads waiting for it.

Usage: rwlock-owner [--json] [ADDRESS]

ADDRESS is a GDB expression for the lock, such as &table_lock or 0x7f5a10c0. The
address of the futex word inside the lock, which is in the registers of a blocked
thread, is accepted too; the command then says so. Without ADDRESS, the command shows
every rwlock that a thread waits for.

The lock records its writer. It only counts its readers: a thread is shown as a reader
if its machine code proves that it holds the lock (derived). A thread that only has the
lock's address on its stack is a candidate.

The command does not use debug information, which may describe the pthread_rwlock_t of
another C library.

  --json   Print one JSON document (schema gdbext/1) and nothing else.

Example:
  (gdb) rwlock-owner 0x55d2c8f0
  Rwlock 0x55d2c8f0 in libdrv.so, write-locked by thread 2 "worker"

Related: lock-owner, py-deadlocks."""

LOCK_HELP = """Show the holders of a lock of any known kind and the threads waiting for it.

Usage: lock-owner [--json] [ADDRESS]

ADDRESS is a GDB expression for the lock, or the name that a report gives to it, such as
`lock of app`. The command determines the kind of lock from
the system call of a thread that waits for it; if no thread does, from the contents of
the memory. Without ADDRESS, it shows every lock that a thread waits for.

  --json   Print one JSON document (schema gdbext/1) and nothing else.

Example:
  (gdb) lock-owner &accounts
  Mutex 0x404060 accounts in bank, held by thread 3

Related: rwlock-owner, py-deadlocks, py-threads-locks."""


def _run(snapshot: Snapshot, arguments: Namespace, addresses: Sequence[int], kind: LockKind | None) -> Result:
    found: Lock | None = None
    note: Reason | None = None
    if addresses:
        found, note = _lock_at(snapshot, addresses[0], kind)
        asked = [found]
    else:
        asked = [lock for lock in snapshot.locks() if kind in (None, lock.kind) and lock.waiters]
    chosen = {lock.id for lock in asked}
    holders = {holder.thread for lock in asked for holder in lock.holders}
    report = snapshot.report(lambda thread: thread.number in holders, found)
    locks = [lock for lock in report.locks if lock.id in chosen]
    involved = {waiter.thread for lock in locks for waiter in lock.waiters}
    involved |= {holder.thread for lock in locks for holder in lock.holders}
    involved |= {number for lock in locks for number in lock.candidates}
    # also the locks that the holders themselves wait for
    chosen |= {thread.waits.lock for thread in report.threads if thread.number in involved and thread.waits}
    notes = (*report.notes, note) if note else report.notes
    # without the deadlocks, so that their locks are left out too
    return Result(filter_report(replace(report, deadlocks=(), notes=notes), involved, chosen),
                  ("threads", "locks", "problems"), lambda text: text.locks(locks))


def _lock_at(snapshot: Snapshot, address: int, kind: LockKind | None) -> tuple[Lock, Reason | None]:
    lock, note = snapshot.lock_at(address, kind)
    if lock is not None and kind in (None, lock.kind):
        return lock, note
    if lock is not None:
        found = f"it is a {lock.kind}, held or waited for"
    else:
        found = "the memory does not match" if note is None else explain(note)
    raise GdbextError(f"there is no {kind or 'lock of a known kind'} at {address:#x} ({found})",
                      "without an address the command lists every lock that a thread waits for")


RWLOCK_OWNER = Command("rwlock-owner", RWLOCK_HELP, (JSON,), "address", functools.partial(_run, kind=RWLOCK))
LOCK_OWNER = Command("lock-owner", LOCK_HELP, (JSON,), "address", functools.partial(_run, kind=None))
