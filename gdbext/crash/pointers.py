"""Describes addresses of the target: code, a thread's stack, a Python or C++ object, a file, or unmapped memory.

Memory itself proves each description; without proof it is only the kind of memory.
"""

from __future__ import annotations

from collections.abc import Sequence

from gdbext.cpython.object_state import ObjectState, is_type, nearly_filled_with, read_object_state
from gdbext.errors import GdbextError, if_unreadable
from gdbext.glibc.version import LIBC
from gdbext.inferior.address_space import Region
from gdbext.inferior.cache import PAGE, read_available, read_u64
from gdbext.inferior.protocol import Memory, Module, Target
from gdbext.model.reasons import Reason, because
from gdbext.record import record
from gdbext.runtimes.libstdcxx import class_of, readable_type
from gdbext.runtimes.names import short_name
from gdbext.threads.code import Code
from gdbext.threads.python_side import Python
from gdbext.threads.threads import Threads

#: Kinds of pointers.
NULL, SMALL, NON_CANONICAL, PATTERN, UNMAPPED = "null", "small", "non-canonical", "pattern", "unmapped"
CODE, DATA, STACK, PYTHON, CPLUSPLUS, FILE, MEMORY = "code", "data", "stack", "python", "c++", "file", "memory"
#: Kinds of values that are not valid pointers.
BAD = frozenset((NULL, SMALL, NON_CANONICAL, PATTERN, UNMAPPED))

#: The header of a block of malloc with a mapping of its own, and how far such mappings are from others, in bytes.
_MMAP_HEADER, _BESIDE = 16, 1 << 30
#: The size of a block's header, at the start of the first heap too.
_HEADER = 16
#: The bit of a block's size that says that it has a mapping of its own.
_IS_MMAPPED = 2
#: The size to which the arenas of threads are aligned, and how many pages of heaps are searched for a link's own.
_ARENA, _MAX_PAGES = 64 << 20, 1 << 15
#: The most halves of addresses that one mapping is searched for.
_MAX_HALVES = 64
#: How many bytes of a thread's descriptor are searched, and how far its first function is from others in a file.
_DESCRIPTOR, _SAME_FILE = 0x900, 1 << 20
#: Largest distance of two blocks in one free list, in bytes: a heap of glibc's.
_NEARBY = 64 << 20
#: The lowest address that Linux maps by default (vm.mmap_min_addr).
LOWEST = 0x10000


@record
class Pointer:
    """A description of a value as an address."""

    value: int
    kind: str
    what: Reason


def function_name(function: str | None, module: Module | None) -> Reason:
    """The name of a function of a file in reports."""
    if function:
        return because("function", name=short_name(function))
    return because("unnamed-function", module=module.name if module is not None else None)


class Pointers:
    """Describes addresses of a stopped target."""

    def __init__(self, target: Target, code: Code, threads: Threads, pythons: Sequence[Python]) -> None:
        self._memory: Memory = target.memory
        self._demangle = target.demangle
        self._code = code
        self._pythons = pythons
        self.space = code.space
        self._stacks: dict[int, int] = {}
        self._descriptors = {seen.number: seen.pthread or seen.thread_pointer for seen in threads}
        for seen in threads:
            sp = seen.registers.get(code.cpu.STACK_POINTER)
            region = self.space.find(sp) if sp is not None else None
            if region is None or region.allows("w") is False:  # beyond the end of the stack
                region = self.stack_at(seen.number)
            if region is not None:
                self._stacks.setdefault(region.start, seen.number)
        self._known: dict[int, Pointer] = {}

    def describe(self, value: int) -> Pointer:
        """Describe a value as an address."""
        if value not in self._known:
            self._known[value] = self._describe(value)
        return self._known[value]

    def is_readable(self, address: int) -> bool:
        """Whether a byte can be read; not every core contains it."""
        return bool(read_available(self._memory, address, 1))

    def is_unmapped_block(self, address: int) -> bool:
        """Whether an address is one of a large block of malloc in a mapping that is gone, beside other mappings.

        Source: glibc 2.36 malloc/malloc.c (sysmalloc_mmap): such a block is 16 bytes behind the start of its mapping.
        """
        if address % PAGE != _MMAP_HEADER or address < 1 << 32 or self.describe(address).kind != UNMAPPED:
            return False
        above = self.space.above(address)
        return above is not None and above.start - address <= _BESIDE

    def whole_pointer(self, value: int) -> Pointer | None:
        """The pointer to a block or an object of which a value is the lower half, extended to 64 bits.

        There is only one such block in a process by chance if its mappings are small.
        """
        if value >> 31 not in (1, (1 << 33) - 1) and not LOWEST <= value < 1 << 31 or self.describe(
                value).kind != UNMAPPED:
            return None
        low, found = value & (1 << 32) - 1, []
        for region in self.space:
            first, last = max(region.start >> 32, 1), min(region.end - 1 >> 32, (region.start >> 32) + _MAX_HALVES)
            found += [half << 32 | low for half in range(first, last + 1) if region.allows("w")
                      and region.start <= half << 32 | low < region.end]
        known = [pointer for pointer in map(self.describe, found) if pointer.kind in (PYTHON, CPLUSPLUS)
                 or is_block_in_use(self._memory, pointer.value)]
        if len(known) != 1:
            return None
        is_block = known[0].kind == MEMORY
        return Pointer(known[0].value, known[0].kind, because("malloc-block") if is_block else known[0].what)

    def is_free_link(self, value: int) -> bool:
        """Whether a bad pointer is a link of malloc's list of free blocks, which is combined with its own address.

        Source: glibc 2.32 malloc/malloc.c (PROTECT_PTR); an arena that is not the first one is aligned to 64 MiB.
        """
        if value < LOWEST or self.describe(value).kind not in (UNMAPPED, NON_CANONICAL):
            return False
        left = _MAX_PAGES
        for region in self.space:
            first, end = region.start // PAGE, region.end // PAGE
            is_near = first <= value < end or value >> 36 == region.start >> 36
            if not is_near or not region.allows("w") or not (region.start % _ARENA == 0 or is_block_in_use(
                    self._memory, region.start + _HEADER)):
                continue
            if first <= value < end:
                return True  # the last block of a list
            pages = range(first, min(end, first + left))
            left -= len(pages)
            if any(region.start <= value ^ page < region.end and (value ^ page) % 16 == 0 for page in pages):
                return True
        return False

    def not_a_block(self, address: int) -> Reason | None:
        """What an address is, if no block of malloc can begin there."""
        pointer = self.describe(address)
        if pointer.kind in (*BAD, CODE, DATA, STACK, FILE):
            return pointer.what
        return because("not-aligned-block") if address % 16 else None

    def stack_at(self, number: int) -> Region | None:
        """The mapping of a thread's stack, which is that of its descriptor; None for the first thread."""
        region = self.space.find(self._descriptors.get(number, 0))
        return region if region is not None and region.allows("w") and not region.path else None

    def has_started_at(self, address: int, number: int) -> bool:
        """Whether a thread's descriptor has its first function, or that function's argument, close to an address.

        Source: glibc 2.36 nptl/descr.h (``start_routine``, ``arg``).
        """
        words = read_words(self._memory, self._descriptors.get(number, 0) & ~7, _DESCRIPTOR)
        return any(abs(word - address) < _SAME_FILE and self.describe(word).kind == UNMAPPED for word in words)

    def is_in_c_library(self, address: int) -> bool:
        """Whether an address is in the file of the C library."""
        module = self._code.module(address)
        return module is not None and (LIBC.match(module.name) is not None or module.name.startswith("libpthread"))

    def stack_of(self, address: int) -> int | None:
        """The number of the thread whose stack is in the same mapping as an address; None for no stack."""
        region = self.space.find(address)
        return self._stacks.get(region.start) if region is not None else None

    def in_image(self, address: int) -> bool:
        """Whether an address is in a loaded file."""
        return self._code.module(address) is not None

    def class_of(self, address: int) -> str | None:
        """The C++ class in the type information of an object with virtual functions; None for others."""
        if address & 7 or address < LOWEST:
            return None
        try:
            name = class_of(self._memory, self.in_image, address)
        except GdbextError:
            return None
        return readable_type(name, self._demangle) if name is not None else None

    def python_object(self, address: int) -> tuple[str, ObjectState] | None:
        """The type and the state of a Python object that is, or was, at an address; None if there was none."""
        for python in self._pythons:
            try:
                if address < LOWEST or not python.objects.is_object(address):
                    continue
                state = read_object_state(self._memory, python.runtime.layouts, python.objects, address)
                if is_type(self._memory, python.runtime.layouts, python.objects, state.type):
                    name = python.objects.name_of_type(state.type)
                    return (name, state) if name.isprintable() and len(name) > 1 else None
            except GdbextError:
                continue
        return None

    def is_member_of_none(self, address: int, offset: int) -> bool:
        """Whether code that reads at an offset of an address takes None for an object with members of its own."""
        found = self.python_object(address)
        return found is not None and found[0] == "NoneType" and any(
            offset > python.runtime.layouts["PyObject"].offset("ob_type") for python in self._pythons)

    def _describe(self, value: int) -> Pointer:
        if value == 0:
            return Pointer(value, NULL, because("null"))
        if value < LOWEST:
            return Pointer(value, SMALL, because("small-number", value=value))
        if not self._code.cpu.is_canonical(value):
            filled = nearly_filled_with(value)
            if filled is not None:
                return Pointer(value, PATTERN, filled)
            return Pointer(value, NON_CANONICAL, because("not-canonical", text=_as_text(value)))
        return self._mapped(value)

    def _mapped(self, value: int) -> Pointer:
        module = self._code.module(value)
        region = self.space.find(value)
        if module is not None:
            function = self._code.symbol(value).function
            if region is not None and region.allows("x"):
                return Pointer(value, CODE, because("code-in", module=module.name, function=function))
            return Pointer(value, DATA, because("data-in", module=module.name, function=function))
        if region is None and not self.is_readable(value):
            if not len(self.space):
                return Pointer(value, UNMAPPED, because("not-readable"))
            return Pointer(value, UNMAPPED, nearly_filled_with(value) or because("not-mapped"))
        number = self.stack_of(value)
        if number is not None:
            return Pointer(value, STACK, because("on-stack-of", thread=number))
        found = self.python_object(value)
        if found is not None:
            kind, state = found
            if state.problem is None:
                return Pointer(value, PYTHON, because("python-object", type=kind))
            if state.freed:
                return Pointer(value, PYTHON, because("freed-python-object", type=kind, problem=state.problem))
        if is_freed_block(self._memory, value):
            return Pointer(value, MEMORY, because("freed-memory"))
        name = self.class_of(value)
        if name is not None:
            return Pointer(value, CPLUSPLUS, because("cpp-object", type=name))
        return _plain(value, region)


@if_unreadable(False)
def is_freed_block(memory: Memory, address: int) -> bool:
    """Whether an address is that of a small block of malloc that is free: it begins with a link to the next one.

    Source: glibc 2.32 malloc/malloc.c (PROTECT_PTR: the link is combined with its own address; the last one is null).
    """
    if address & 15:
        return False
    link = read_u64(memory, address) ^ address >> 12
    return link == 0 or link & 15 == 0 and 0 < abs(link - address) < _NEARBY and bool(read_available(memory, link, 8))


@if_unreadable(False)
def is_block_in_use(memory: Memory, address: int) -> bool:
    """Whether a block of malloc that is in use begins at an address, by its header and that of the next block.

    Source: glibc 2.36 malloc/malloc.c (``struct malloc_chunk``, PREV_INUSE, IS_MMAPPED).
    """
    size = read_u64(memory, address - 8) if address & 15 == 0 else 0
    if size & 8 or not 32 <= size & ~7 < 1 << 40:
        return False
    if size & _IS_MMAPPED:
        return address % PAGE == _MMAP_HEADER and size & ~7 & PAGE - 1 == 0
    following = read_u64(memory, address + (size & ~7) - 8)
    return bool(following & 1) and not following & 8 and 16 <= following & ~7 < 1 << 40


def _plain(value: int, region: Region | None) -> Pointer:
    if region is None:
        return Pointer(value, MEMORY, because("memory"))
    if region.path and region.path.startswith("/"):
        return Pointer(value, FILE, because("mapped-file", file=region.path.rpartition("/")[2],
                                            offset=value - region.start + region.offset))
    if region.permissions == "":
        return Pointer(value, MEMORY, because("inaccessible-memory"))
    if region.path == "[heap]":
        return Pointer(value, MEMORY, because("heap"))
    return Pointer(value, MEMORY, because("mapping", name=region.path) if region.path else because("memory"))


def read_words(memory: Memory, start: int, size: int) -> Sequence[int]:
    """The readable 64-bit words at the beginning of a range of at most `size` bytes."""
    data = read_available(memory, start, size & ~7)
    return memoryview(data[:len(data) & ~7]).cast("Q")


def _as_text(value: int) -> str | None:
    """The bytes of a value as text, such as a string that overwrote a pointer; None for other values."""
    data = value.to_bytes(8, "little").rstrip(b"\0")
    is_text = len(data) >= 5 and all(32 <= byte < 127 for byte in data) and not data.isspace()
    return data.decode("ascii") if is_text else None
