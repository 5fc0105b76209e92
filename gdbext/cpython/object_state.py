"""Whether what should be a Python object is one: freed memory, impossible reference counts and types.

C structures: ``PyObject`` of CPython 3.6 to 3.15, ``struct arena_object`` and ``block`` of its allocator, the links of
glibc's ``tcache_entry``.
"""

from __future__ import annotations

from gdbext.cpython.objects import Objects
from gdbext.errors import GdbextError, if_unreadable
from gdbext.inferior.cache import read_u64
from gdbext.inferior.protocol import Memory
from gdbext.layout.table import Layouts
from gdbext.record import record

#: Patterns of eight equal bytes that allocators fill memory with, and what they say.
#: CPython 3.8 and later Objects/obmalloc.c: PYMEM_CLEANBYTE, PYMEM_DEADBYTE, PYMEM_FORBIDDENBYTE; up to 3.7 the others;
#: jemalloc 5.3 include/jemalloc/internal/jemalloc_internal_types.h: JEMALLOC_FREE_JUNK, JEMALLOC_ALLOC_JUNK;
#: LLVM 14 compiler-rt/lib/asan/asan_flags.inc: malloc_fill_byte
_FILLED = {
    0xDD: "Python's debug allocator leaves it in memory that was freed",
    0xCD: "Python's debug allocator leaves it in memory that was not yet written to",
    0xFD: "Python's debug allocator has it around memory",
    0xDB: "the debug allocator of Python up to 3.7 leaves it in memory that was freed",
    0xCB: "the debug allocator of Python up to 3.7 leaves it in memory that was not yet written to",
    0xFB: "the debug allocator of Python up to 3.7 has it around memory",
    0x5A: "jemalloc can leave it in memory that was freed",
    0xA5: "jemalloc can leave it in memory that was not yet written to",
    0xBE: "AddressSanitizer leaves it in memory that was not yet written to",
}
#: More references than memory can hold.
_MOST_REFERENCES = 1 << 44
_IMMORTAL_32 = 0xFFFFFFFF  # CPython 3.12 and 3.13 Include/object.h: _Py_IMMORTAL_REFCNT
#: How far links of freed memory may lead, in bytes: an arena of CPython's allocator, a heap of glibc's.
_NEARBY = 64 << 20


def filled_with(value: int) -> str | None:
    """What a word of eight equal bytes says about the memory that it was read from; None for any other word."""
    byte = value & 0xFF
    printable = 32 <= byte < 127 and byte not in _FILLED  # more likely text that was written over it
    if value != byte * 0x0101010101010101 or byte in (0, 0xFF) or printable:
        return None
    known = f" ({_FILLED[byte]})" if byte in _FILLED else ""
    return f"the byte {byte:#04x} eight times, which memory is filled with{known}"


def nearly_filled_with(value: int) -> str | None:
    """The same for a word that is a little more than such a pattern, as the address of a member."""
    pattern = (value >> 56) * 0x0101010101010101
    return filled_with(pattern) if 0 <= value - pattern < 1 << 16 else None


@record
class ObjectState:
    """The header of a ``PyObject``, and why it cannot be one; `problem` is None for an object that may be live.

    `freed`: the memory holds what an allocator leaves in memory that was freed.
    """

    address: int
    references: int | None
    type: int
    problem: str | None
    freed: bool = False


def read_object_state(memory: Memory, layouts: Layouts, objects: Objects, address: int) -> ObjectState:
    """Look at the header of what should be an object.

    Source: CPython 3.13 Include/object.h (PyObject, _Py_IMMORTAL_REFCNT), Objects/obmalloc.c (pymalloc_free: a freed
    block begins with the address of the next free one); glibc 2.36 malloc/malloc.c (PROTECT_PTR).

    :param address: ``PyObject *``.
    :return: `references` is None on free-threaded builds, which count in several places.
    :raises MemoryUnreadable: nothing is mapped there.
    """
    kind = objects.type_address(address)
    if layouts.build.startswith("free-threaded"):
        return ObjectState(address, None, kind, _type_problem(memory, layouts, objects, kind))
    # the count is what comes before the type, also with the list of all objects of a Py_TRACE_REFS build before it
    first = read_u64(memory, address + layouts["PyObject"].offset("ob_type") - 8)
    references = _references(first, layouts.version_tuple)
    fill = filled_with(first) or filled_with(kind)
    if fill is not None:
        return ObjectState(address, references, kind, f"it holds {fill}", True)
    type_problem = _type_problem(memory, layouts, objects, kind)
    link = _link(memory, address, first)
    if link is not None and (type_problem is not None or not 0 < references < _MOST_REFERENCES):
        return ObjectState(address, references, kind, f"its first word is {link}: it was freed", True)
    if not 0 < references < _MOST_REFERENCES:
        return ObjectState(address, references, kind, f"its reference count is {references}",
                           references == 0)
    return ObjectState(address, references, kind, type_problem)


def _references(word: int, version: tuple[int, ...]) -> int:
    if version >= (3, 14):
        # the lower half counts, and is negative for immortal objects; ob_overflow and ob_flags follow, and only who
        # counts with 64 bits sets the former
        low, count = word & 0xFFFFFFFF, word & 0xFFFFFFFFFFFF
        return count if count >= _MOST_REFERENCES else 1 if low >> 31 else low
    if version >= (3, 12) and word & 0xFFFFFFFF == _IMMORTAL_32:
        return 1
    return word - (1 << 64) if word >> 63 else word


def _type_problem(memory: Memory, layouts: Layouts, objects: Objects, kind: int) -> str | None:
    fill = filled_with(kind)
    if fill is not None:
        return f"its type pointer is {fill}"
    try:
        if kind and kind & 7 == 0 and objects.is_object(kind) and objects.makes_types(objects.type_address(kind)):
            return None
    except GdbextError:
        return f"its type pointer {kind:#x} leads nowhere"
    return f"its type pointer {kind:#x} leads to no type"


def _link(memory: Memory, address: int, word: int) -> str | None:
    """What allocator's list of free memory a word is a link of, that lies at the beginning of a block."""
    if not word:
        return None
    if word & 15 == 0 and abs(word - address) < _NEARBY and word != address and _readable(memory, word):
        return "the address of another block, as in the free list of Python's allocator"
    plain = word ^ address >> 12
    if plain & 15 == 0 and abs(plain - address) < _NEARBY and plain != address and _readable(memory, plain):
        return "a link of malloc's free list"
    return None


@if_unreadable(False)
def _readable(memory: Memory, address: int) -> bool:
    memory.read(address, 8)
    return True
