"""Decodes `queue.SimpleQueue`, from which the threads of pools take their calls; both kinds of pools read it.

Source: CPython 3.13 Modules/_queuemodule.c (``simplequeueobject``, ``RingBuf``). Up to 3.12 a queue is a list with the
index of its first item.
"""

from __future__ import annotations

import struct

from gdbext.cpython.frames import FrameReader
from gdbext.cpython.locking.locks import LockReader
from gdbext.cpython.objects import Objects
from gdbext.errors import CorruptStructure
from gdbext.inferior.protocol import Memory
from gdbext.layout.table import Layouts

#: Most items of one queue that are read.
MAX_QUEUED = 10_000


class QueueReader:
    """What the readers of pools of one runtime have in common."""

    def __init__(self, memory: Memory, layouts: Layouts, objects: Objects, frames: FrameReader,
                 locks: LockReader) -> None:
        self._memory = memory
        self._layouts = layouts
        self._objects = objects
        self._frames = frames
        self._locks = locks

    def _name_of(self, function: int) -> str | None:
        """The name of a function, method or class (``PyObject *``); None for any other object."""
        if self._objects.makes_types(self._objects.type_address(function)):
            return self._objects.name_of_type(function)
        return self._objects.function_name(function) or self._objects.bound_method(function)[1]

    def _items(self, queue: int) -> tuple[int, ...]:
        """The items of a `queue.SimpleQueue` (``PyObject *``), the next one first, at most `MAX_QUEUED`.

        :raises CorruptStructure: it is another object, or it is damaged.
        """
        if self._objects.type_name(queue) != "_queue.SimpleQueue":
            raise CorruptStructure(queue, "not a SimpleQueue")
        if self._layouts.has("simplequeueobject", "buf.items"):
            at, first, size, count = self._objects.read_members(
                "simplequeueobject", queue, "buf.items", "buf.get_idx", "buf.items_cap", "buf.num_items")
            if not 0 <= count <= size or not 0 <= first <= size:
                raise CorruptStructure(queue, f"a queue of {count} items")
            count = min(count, MAX_QUEUED)
            before_end = min(count, size - first)
            return (*self._words(at + 8 * first, before_end), *self._words(at, count - before_end))
        items, first = self._objects.read_members("simplequeueobject", queue, "lst", "lst_pos")
        size = self._objects.size(items)
        if not 0 <= first <= size:
            raise CorruptStructure(queue, f"a queue that begins at {first}")
        at = self._objects.read_member("PyListObject", items, "ob_item")
        return self._words(at + 8 * first, min(size - first, MAX_QUEUED))

    def _words(self, at: int, count: int) -> tuple[int, ...]:
        return struct.unpack(f"<{count}Q", self._memory.read(at, 8 * count)) if count else ()
