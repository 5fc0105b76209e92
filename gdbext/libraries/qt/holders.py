"""Finds the threads inside `with` blocks of lockers of a `QMutex` or `QReadWriteLock`, which record no owner."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from gdbext.cpython.frames import RawFrame
from gdbext.errors import GdbextError, if_unreadable
from gdbext.inferior.protocol import Memory
from gdbext.libraries.qt.decoding import locker_holds
from gdbext.locks.library_parts import LibraryHolders
from gdbext.locks.python_reader import Reader
from gdbext.locks.seen import Known, SeenLock
from gdbext.model import DERIVED, EXCLUSIVE, SHARED, Holder, Mode, PyFrame
from gdbext.model.kinds import LockKind
from gdbext.model.reasons import because

_MUTEX, _RWLOCK = "qt-mutex", "qt-rwlock"
#: The lockers of each state of a lock.
_LOCKERS: Mapping[tuple[LockKind, str], str] = {
    (_MUTEX, "locked"): "QMutexLocker", (_RWLOCK, "write-locked"): "QWriteLocker",
    (_RWLOCK, "read-locked"): "QReadLocker"}
_INSIDE = because("in-locker-block")


class Lockers(LibraryHolders):
    """Finds the threads inside `with` blocks of lockers."""

    def find(self, lock: SeenLock, waiters: Collection[int]) -> SeenLock | None:
        """The thread inside a `with` block of a locker that has the lock, or the readers inside such blocks.

        :return: None if there are none, or more than can have the lock.
        """
        locker = _LOCKERS.get((lock.kind, lock.state))
        if locker is None:
            return None
        scene = self._scene
        # the outermost block of each thread
        inside = {seen.number: at for seen in scene.threads
                  for reader, stack in self._holding.python_stacks(seen.number) for raw in stack
                  for at in _held(scene.memory, reader, raw, lock, locker)}
        if not 0 < len(inside) <= max(lock.readers, 1):
            return None
        mode: Mode = SHARED if lock.readers else EXCLUSIVE
        holders = tuple([Holder(number, mode, DERIVED, _INSIDE, at) for number, at in sorted(inside.items())])
        return replace(lock, held=Known(holders), why=_INSIDE)

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
            and locker_holds(memory, manager, reader.layouts["PyObject"].size, lock.address, lock.kind == _MUTEX))


HOLDERS = Lockers
