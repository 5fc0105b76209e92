"""Finds the thread inside a `with QMutexLocker(mutex)` block of a `QMutex`, which records no owner itself."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from gdbext.cpython.frames import RawFrame
from gdbext.errors import GdbextError, if_unreadable
from gdbext.inferior.protocol import Memory
from gdbext.model import DERIVED, PyFrame
from gdbext.model.kinds import QT_MUTEX
from gdbext.model.reasons import because
from gdbext.runtimes.qt import locker_holds
from gdbext.waits.python_locks import Reader
from gdbext.waits.seen import SeenLock, held_by

if TYPE_CHECKING:
    from gdbext.holders.owners import HolderContext


_LOCKER = "QMutexLocker"


def inside_locker(found: SeenLock, waiters: Collection[int], context: HolderContext) -> SeenLock | None:
    """The thread inside a `with` block of a locker that has the mutex; None if there is not exactly one."""
    if found.kind != QT_MUTEX or found.state != "locked":
        return None
    memory, locks = context.waits.memory, context.waits.python_locks
    inside = [(seen.number, at) for seen in context.waits.threads
              for reader, stack in locks.stacks(seen.number) for raw in stack
              for at in _held(memory, reader, raw, found.address)]
    if len({number for number, _ in inside}) != 1:
        return None
    why = because("in-locker-block")
    number, at = inside[-1]  # the outermost block
    return replace(found, holders=held_by((number,), DERIVED, why, taken_at=at), why=why)


def _held(memory: Memory, reader: Reader, raw: RawFrame, mutex: int) -> Iterator[PyFrame]:
    """The frame at the `with` statement of each locker that has the mutex."""
    try:
        blocks = reader.managers(raw)
    except GdbextError:
        return
    for block in blocks:
        if _is_holding(memory, reader, block.manager, mutex):
            yield replace(raw.frame, line=block.line, columns=None)


@if_unreadable(False)
def _is_holding(memory: Memory, reader: Reader, manager: int, mutex: int) -> bool:
    names = reader.objects.type_names(manager)
    return (any(name.rpartition(".")[2] == _LOCKER for name in names)
            and locker_holds(memory, manager, reader.layouts["PyObject"].size, mutex))
