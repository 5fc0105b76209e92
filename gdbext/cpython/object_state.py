"""Checks whether a supposed Python object is one: freed memory, impossible reference counts and types.

C structures: ``PyObject`` of CPython 3.6 to 3.15, ``struct arena_object`` and ``block`` of its allocator, the links of
glibc's ``tcache_entry``.
"""

from __future__ import annotations

from gdbext.cpython.objects import Objects
from gdbext.errors import GdbextError, if_unreadable
from gdbext.inferior.cache import read_u64
from gdbext.inferior.protocol import Memory
from gdbext.layout.table import Layouts
from gdbext.model.reasons import Reason, because
from gdbext.record import record

#: Bytes that allocators fill memory with -> the allocator and the kind of memory.
#: CPython 3.8 and later Objects/obmalloc.c: PYMEM_CLEANBYTE, PYMEM_DEADBYTE, PYMEM_FORBIDDENBYTE; up to 3.7 the others;
#: jemalloc 5.3 include/jemalloc/internal/jemalloc_internal_types.h: JEMALLOC_FREE_JUNK, JEMALLOC_ALLOC_JUNK;
#: LLVM 14 compiler-rt/lib/asan/asan_flags.inc: malloc_fill_byte
_FILLED = {
    0xDD: "python-freed", 0xCD: "python-new", 0xFD: "python-around",
    0xDB: "python37-freed", 0xCB: "python37-new", 0xFB: "python37-around",
    0x5A: "jemalloc-freed", 0xA5: "jemalloc-new", 0xBE: "asan-new",
}
#: More references than memory has room for.
_MOST_REFERENCES = 1 << 44
_IMMORTAL_32 = 0xFFFFFFFF  # CPython 3.12 and 3.13 Include/object.h: _Py_IMMORTAL_REFCNT
#: Largest distance of two blocks in one free list, in bytes: an arena of CPython's allocator, a heap of glibc's.
_NEARBY = 64 << 20


def filled_with(value: int) -> Reason | None:
    """Recognise a word of eight equal bytes as a fill pattern; None for any other word."""
    byte = value & 0xFF
    printable = 32 <= byte < 127 and byte not in _FILLED  # more likely text that was written there
    if value != byte * 0x0101010101010101 or byte in (0, 0xFF) or printable:
        return None
    return because("fill-pattern", byte=byte, filler=_FILLED.get(byte))


def nearly_filled_with(value: int) -> Reason | None:
    """Like `filled_with`, also for a word that is slightly larger than a pattern, as the address of a member is."""
    pattern = (value >> 56) * 0x0101010101010101
    return filled_with(pattern) if 0 <= value - pattern < 1 << 16 else None


@record
class ObjectState:
    """The header of a ``PyObject``; `problem` says why it cannot be a live object.

    `freed` is true if the memory contains a pattern that an allocator leaves in freed memory.
    """

    address: int
    references: int | None
    type: int
    problem: Reason | None
    freed: bool = False


def read_object_state(memory: Memory, layouts: Layouts, objects: Objects, address: int) -> ObjectState:
    """Check the header of a supposed object.

    Source: CPython 3.13 Include/object.h (PyObject, _Py_IMMORTAL_REFCNT), Objects/obmalloc.c (pymalloc_free: a freed
    block begins with the address of the next free one); glibc 2.36 malloc/malloc.c (PROTECT_PTR).

    :param address: ``PyObject *``.
    :return: on free-threaded builds `references` are those of all threads together.
    :raises MemoryUnreadable: the address is not mapped.
    """
    kind = objects.type_address(address)
    if layouts.build.startswith("free-threaded"):
        return _free_threaded_state(memory, layouts, objects, address)
    # the count precedes the type, also in Py_TRACE_REFS builds, where list pointers precede the count
    first = read_u64(memory, address + layouts["PyObject"].offset("ob_type") - 8)
    references = _references(first, layouts.version_tuple)
    fill = filled_with(first) or filled_with(kind)
    if fill is not None:
        return ObjectState(address, references, kind, because("object-filled", pattern=fill), True)
    type_problem = _type_problem(memory, layouts, objects, kind)
    link = _link(memory, address, first)
    if link is not None and (type_problem is not None or not 0 < references < _MOST_REFERENCES):
        return ObjectState(address, references, kind, link, True)
    if not 0 < references < _MOST_REFERENCES:
        return ObjectState(address, references, kind, because("bad-reference-count", count=references), references == 0)
    return ObjectState(address, references, kind, type_problem)


def _free_threaded_state(memory: Memory, layouts: Layouts, objects: Objects, address: int) -> ObjectState:
    """The same for a free-threaded build, which counts references of the owning thread apart from all others.

    Source: CPython 3.13 Include/object.h (_Py_REF_SHARED_SHIFT), Objects/mimalloc/alloc.c: a freed block begins with
    the address of the next free one.
    """
    kind = objects.type_address(address)
    local, shared = objects.read_members("PyObject", address, "ob_ref_local", "ob_ref_shared")
    references = local + (_signed(shared) >> 2)
    type_problem = _type_problem(memory, layouts, objects, kind)
    if type_problem is not None:
        return ObjectState(address, references, kind, type_problem, filled_with(kind) is not None)
    if references > 0:
        return ObjectState(address, references, kind, None)
    link = _link(memory, address, read_u64(memory, address))
    return ObjectState(address, references, kind, link or because("bad-reference-count", count=references), True)


def _signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word


def _references(word: int, version: tuple[int, ...]) -> int:
    if version >= (3, 14):
        # the lower half counts, and is negative for immortal objects; ob_overflow and ob_flags follow, and only code
        # that counts with 64 bits changes the former
        low, count = word & 0xFFFFFFFF, word & 0xFFFFFFFFFFFF
        return count if count >= _MOST_REFERENCES else 1 if low >> 31 else low
    if version >= (3, 12) and word & 0xFFFFFFFF == _IMMORTAL_32:
        return 1
    return _signed(word)


def is_type(memory: Memory, layouts: Layouts, objects: Objects, kind: int) -> bool:
    """Whether an address is that of a type that is alive.

    :param kind: ``PyTypeObject *``.
    """
    return _type_problem(memory, layouts, objects, kind) is None


def _type_problem(memory: Memory, layouts: Layouts, objects: Objects, kind: int) -> Reason | None:
    fill = filled_with(kind)
    if fill is not None:
        return because("type-filled", pattern=fill)
    try:
        if kind and kind & 7 == 0 and objects.is_object(kind) and objects.makes_types(objects.type_address(kind)):
            return None
    except GdbextError:
        return because("type-unreadable", type=kind)
    return because("not-a-type", type=kind)


def _link(memory: Memory, address: int, word: int) -> Reason | None:
    """Recognise the first word of a block as a link in an allocator's list of free memory."""
    for target, reason in ((word, because("object-in-free-list")),
                           (word ^ address >> 12, because("object-in-malloc-list"))):
        if word and target & 15 == 0 and 0 < abs(target - address) < _NEARBY and _is_readable(memory, target):
            return reason
    return None


@if_unreadable(False)
def _is_readable(memory: Memory, address: int) -> bool:
    memory.read(address, 8)
    return True
