"""Finds objects of given types in the lists of CPython's garbage collector.

Each object that the collector tracks has a ``PyGC_Head`` before it, a node of a circular list. The head of the list is
a part of the interpreter's state (CPython 3.8: of the runtime). There is a list for each generation.

Sources: CPython 3.8 Include/internal/pycore_pymem.h, Include/cpython/objimpl.h; CPython 3.13
Include/internal/pycore_gc.h (``_PyGC_PREV_MASK``, ``struct gc_generation``), Python/gc.c.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from gdbext.errors import CorruptStructure, MemoryUnreadable
from gdbext.inferior.cache import CachedMemory, cached
from gdbext.inferior.protocol import Memory

#: Most objects that are passed. A list of so many is read in about a second.
MAX_OBJECTS = 1_000_000
#: ``_gc_next``, ``_gc_prev``, and the beginning of the object: ``ob_refcnt``, ``ob_type``.
_NODE = struct.Struct("<4Q")
_LINKS = struct.Struct("<2Q")
_HEAD_SIZE = 16
#: The other heads are at most so many bytes from one: there are four, each with two counters, and a pointer between.
_NEAR = 4 * 24 + 8
#: The lowest bits of both links are flags.
_FLAGS = 7


def find_tracked(memory: Memory, anchor: int, heads: tuple[int, int], wanted: Callable[[int], bool]) -> list[int]:
    """The tracked objects (``PyObject *``) of the wanted types.

    The offsets of the heads are not needed: the list that contains the anchor leads to one of them, and each of the
    others is a circular list that begins near to it.

    :param anchor: an object that the collector tracks.
    :param heads: start and end of the structure that contains the heads.
    :param wanted: whether a type (``PyTypeObject *``) is wanted. It is called once for each type.
    :raises CorruptStructure: the lists are damaged, as while the collector works, or longer than `MAX_OBJECTS`.
    :raises MemoryUnreadable: a part of them cannot be read.
    """
    pages, low, high = cached(memory), *heads
    at, passed = anchor - _HEAD_SIZE, 0
    while not low <= at < high:
        at = _next(pages, at)
        passed += 1
        if passed > MAX_OBJECTS:
            raise CorruptStructure(anchor, f"more than {MAX_OBJECTS:,} objects, or a list without a head")
    known: dict[int, bool] = {}
    found: list[int] = []
    passed = 0
    for head in range(at - _NEAR, at + _NEAR + 8, 8):
        if not (low <= head < high and _is_head(pages, head)):
            continue
        node = _next(pages, head)
        while node != head:
            following, _, _, kind = pages.unpack(_NODE, node)
            if kind not in known:
                known[kind] = wanted(kind)
            if known[kind]:
                found.append(node + _HEAD_SIZE)
            node = following & ~_FLAGS
            passed += 1
            if passed > MAX_OBJECTS:
                raise CorruptStructure(head, f"more than {MAX_OBJECTS:,} objects, or a list that does not end")
    return found


def _next(memory: CachedMemory, node: int) -> int:
    return memory.unpack(_LINKS, node)[0] & ~_FLAGS


def _is_head(memory: CachedMemory, at: int) -> bool:
    """Whether a circular list leads away from an address and back to it, in both directions."""
    try:
        following, previous = (link & ~_FLAGS for link in memory.unpack(_LINKS, at))
        if not following or not previous:
            return False
        return (memory.unpack(_LINKS, following)[1] & ~_FLAGS == at
                and memory.unpack(_LINKS, previous)[0] & ~_FLAGS == at)
    except MemoryUnreadable:
        return False
