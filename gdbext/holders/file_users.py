"""Finds the threads that may release a lock on a file: those that use the descriptor through which it is held.

Any thread of the process can release it, so they are candidates.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Final

from gdbext.cpython.frames import RawFrame
from gdbext.errors import GdbextError
from gdbext.holders.context import HolderContext
from gdbext.locks.python_reader import Reader
from gdbext.locks.seen import SeenLock, may_be_held_by
from gdbext.model.kinds import DESCRIPTOR, FILE_LOCK, id_of_lock
from gdbext.model.reasons import because, joined

#: A number in a variable is a descriptor only in a function that uses one of these names.
_NAMES: Final = frozenset(("flock", "lockf", "fcntl", "open"))


def using_file(found: SeenLock, waiters: Collection[int], context: HolderContext) -> SeenLock | None:
    """The threads that use a descriptor through which this process holds a lock; None if there are none."""
    if found.kind != FILE_LOCK or not found.descriptors:
        return None
    calls = {made for fd in found.descriptors for made in (id_of_lock(DESCRIPTOR, fd), id_of_lock(FILE_LOCK, fd))}
    users = {*context.finder.waiting_for(calls), *_frames_with(found.descriptors, context)}
    if not users:
        return None
    why = because("descriptor-in-use")
    return replace(found, held=may_be_held_by(users), why=why if found.why is None else joined((found.why, why)))


def _frames_with(descriptors: Collection[int], context: HolderContext) -> Iterator[int]:
    """The threads with a Python frame that has a descriptor, or its file, in a variable or a `with` statement."""
    locks = context.waits.python_locks
    for seen in context.waits.threads:
        if any(_has(reader, raw, descriptors) for reader, stack in locks.stacks(seen.number) for raw in stack):
            yield seen.number


def _has(reader: Reader, raw: RawFrame, descriptors: Collection[int]) -> bool:
    try:
        managers = [block.manager for block in reader.managers(raw)]
        # such as the file of a lock that is an object of its own
        parts = [value for manager in managers for _, value in reader.objects.attributes(manager)]
        files = {*managers, *parts, *reader.frames.variable_values(raw)} - {0}
        has_names = not _NAMES.isdisjoint(reader.frames.names_of(raw.code))
        return any(reader.files.descriptor(value, has_names) in descriptors for value in files)
    except GdbextError:
        return False
