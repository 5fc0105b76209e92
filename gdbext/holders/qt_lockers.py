"""Finds the threads inside `with` blocks of lockers of a `QMutex` or `QReadWriteLock`, which record no owner."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from gdbext.cpython.frames import RawFrame
from gdbext.errors import GdbextError, if_unreadable
from gdbext.inferior.protocol import Memory
from gdbext.model import DERIVED, EXCLUSIVE, SHARED, Mode, PyFrame
from gdbext.model.kinds import QT_MUTEX, QT_RWLOCK, LockKind
from gdbext.model.reasons import because
from gdbext.runtimes.qt import locker_holds
from gdbext.waits.python_locks import Reader
from gdbext.waits.seen import SeenLock, held_by

if TYPE_CHECKING:
    from gdbext.holders.owners import HolderContext


#: The lockers of each state of a lock.
_LOCKERS: Mapping[tuple[LockKind, str], str] = {
    (QT_MUTEX, "locked"): "QMutexLocker", (QT_RWLOCK, "write-locked"): "QWriteLocker",
    (QT_RWLOCK, "read-locked"): "QReadLocker"}
_INSIDE = because("in-locker-block")


def inside_locker(found: SeenLock, waiters: Collection[int], context: HolderContext) -> SeenLock | None:
    """The thread inside a `with` block of a locker that has the lock, or the readers inside such blocks.

    :return: None if there are none, or more than can have the lock.
    """
    locker = _LOCKERS.get((found.kind, found.state))
    if locker is None:
        return None
    memory, locks = context.waits.memory, context.waits.python_locks
    # the outermost block of each thread
    inside = {seen.number: at for seen in context.waits.threads
              for reader, stack in locks.stacks(seen.number) for raw in stack
              for at in _held(memory, reader, raw, found, locker)}
    if not 0 < len(inside) <= max(found.count, 1):
        return None
    mode: Mode = SHARED if found.count else EXCLUSIVE
    holders = [held_by((number,), DERIVED, _INSIDE, mode, at) for number, at in sorted(inside.items())]
    return replace(found, holders=tuple(holder for each in holders for holder in each), why=_INSIDE)


def _held(memory: Memory, reader: Reader, raw: RawFrame, lock: SeenLock, locker: str) -> Iterator[PyFrame]:
    """The frame at the `with` statement of each locker that has the lock."""
    try:
        blocks = reader.managers(raw)
    except GdbextError:
        return
    for block in blocks:
        if _is_holding(memory, reader, block.manager, lock, locker):
            yield replace(raw.frame, line=block.line, columns=None)


@if_unreadable(False)
def _is_holding(memory: Memory, reader: Reader, manager: int, lock: SeenLock, locker: str) -> bool:
    names = reader.objects.type_names(manager)
    return (any(name.rpartition(".")[2] == locker for name in names)
            and locker_holds(memory, manager, reader.layouts["PyObject"].size, lock.address, lock.kind == QT_MUTEX))
