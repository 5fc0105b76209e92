"""C++ objects in memory: the class of an object, and exceptions in flight with their messages.

The virtual table of a polymorphic object leads to the name of its class, with and without symbols. `std::type_info` and
exception headers are the same in GNU libstdc++ and LLVM libc++; `std::string` is decoded for libstdc++ only.

Sources: Itanium C++ ABI (Virtual Table Layout, Run-Time Type Information (RTTI)), Itanium C++ ABI: Exception
Handling; GCC 12.2 libstdc++-v3/libsupc++/{typeinfo,cxxabi.h,unwind-cxx.h}; LLVM 18 libcxxabi/src/cxa_exception.h.
"""

from __future__ import annotations

import itertools
import re
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from gdbext.errors import CorruptStructure, GdbextError, if_unreadable
from gdbext.inferior.cache import read_cstring, read_u64
from gdbext.inferior.protocol import Memory
from gdbext.record import record

InImage = Callable[[int], bool]

#: Byte offsets of the name in a `std::type_info`, and of the members that derived classes add.
_TYPE_NAME, _TYPE_REST = 8, 16
#: Byte offsets from the address of a virtual table: the `std::type_info`, the offset to the top.
_VTABLE_TYPE, _VTABLE_TOP = -8, -16
# the classes of type information, by their own type information: `N10__cxxabiv120__si_class_type_infoE`
_TYPE_INFO_CLASS = re.compile(r"^N10__cxxabiv1\d\d__(\w+)_type_infoE$")
_CLASS_KINDS = ("class", "si_class", "vmi_class")
#: ``__vmi_class_type_info``: flags, number of bases; ``__base_class_type_info``: the base, and flags below an offset.
_VMI, _BASE = struct.Struct("<II"), struct.Struct("<Qq")
_BASE_IS_VIRTUAL, _BASE_OFFSET_SHIFT = 1, 8
# characters of a mangled name; identifiers may have letters of any alphabet
_MANGLED = re.compile(r"[\w.$]+")
_MAX_NAME, _MAX_TEXT = 4096, 4096
#: The largest offset of a base in an object, in bytes.
_MAX_OFFSET = 1 << 24
_MAX_BASES, _MAX_CLASSES = 64, 256


class _Vendor(NamedTuple):
    """Members of a library's exception header, as byte offsets from its ``_Unwind_Exception``.

    `counter` begins with the reference count, and then has unused bytes, which are zero until the exception is freed.
    `primary` is the member of a dependent exception with the address of the thrown object.
    """

    reference_count: int
    counter: struct.Struct
    primary: int


#: The bytes of ``exception_class`` in memory after the first byte, which is 1 for a dependent exception.
_VENDORS = {
    b"++CCUNG": _Vendor(-0x60, struct.Struct("<iIQ"), -0x50),
    b"++CGNLC": _Vendor(-0x58, struct.Struct("<Q"), -0x58),
}
#: Byte offsets from ``_Unwind_Exception``, which is the last member of ``__cxa_exception``: other members, and the
#: thrown object behind it.
_EXCEPTION_TYPE, _TERMINATE_HANDLER, _NEXT_EXCEPTION, _HANDLER_COUNT, _THROWN = -0x50, -0x38, -0x30, -0x28, 0x20
#: The start of the header, without the reference count and with it.
_STARTS = (-0x50, -0x60)
#: More references than an exception ever has.
_MAX_REFERENCES = 1 << 20
#: Bounds: the words that are searched for exceptions, and the exceptions that are returned.
_MAX_WORDS, _MAX_EXCEPTIONS = 1 << 16, 32
#: By default Linux maps nothing below this address (vm.mmap_min_addr).
FIRST_PAGES = 1 << 16

#: Byte offsets of the text in standard exceptions: a ``__cow_string`` in libstdc++, a ``__libcpp_refstring`` in libc++
#: (GCC 12.2 libstdc++-v3/include/std/stdexcept, LLVM 18 libcxx/src/include/refstring.h).
_STANDARD_TEXT = {"St13runtime_error": 8, "St11logic_error": 8}
#: ``std::filesystem::filesystem_error``: the pointer to its ``_Impl``, and in that the text behind two paths
#: (GCC 12.2 libstdc++-v3/src/c++17/fs_path.cc).
_FILESYSTEM_ERRORS, _FILESYSTEM_IMPL, _FILESYSTEM_TEXT = ("NSt10filesystem7__cxx1116filesystem_errorE",), 32, 80
_EXCEPTION = "St9exception"
_STRING = "NSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
_COW_STRING = "Ss"
_POINTERS_TO_TEXT = ("PKc", "Pc")
#: Integer types by their mangled names (Itanium C++ ABI, Mangling).
_INTEGERS = {name: struct.Struct(f"<{code}") for name, code in zip("ahstijlmxy", "bBhHiIqQqQ")}
#: ``std::string``: pointer to the characters, length, then the capacity or a buffer of 16 bytes that holds them.
_STRING_HEAD, _STRING_BUFFER, _SHORT = struct.Struct("<QQQ"), 16, 15
#: The fields before the characters of a ``__cow_string``: length, capacity, reference count minus one.
_COW_HEAD = struct.Struct("<QQi4x")
_MAX_LENGTH = 1 << 32
#: How many bytes of an object of unknown size are searched for its text.
_MAX_OBJECT = 256
#: An exception is in a block of glibc's malloc, preceded by its size with flags (malloc/malloc.c). The headers of both
#: libraries take the same number of bytes of it.
_BLOCK_SIZE, _BLOCK_FLAGS, _HEADERS = 8, 7, 0x80
#: The shortest text that is accepted if the characters are the only evidence.
_MIN_GUESS = 4


# -- types ----------------------------------------------------------------------------------------------------

def read_type_name(memory: Memory, type_info: int) -> str | None:
    """Read the mangled name of a type, without the ``*`` that marks a name that may not be unique.

    :param type_info: ``std::type_info *`` in the target.
    :return: such as ``St13runtime_error``, at most 4096 bytes; None if the memory is not a type with a valid name.
    """
    try:
        name = read_cstring(memory, read_u64(memory, type_info + _TYPE_NAME), _MAX_NAME).decode()
    except (GdbextError, UnicodeDecodeError):
        return None
    name = name[1:] if name.startswith("*") else name
    return name if _MANGLED.fullmatch(name) else None


def readable_type(mangled: str, demangle: Callable[[str], str]) -> str:
    """Demangle the name of a type; returns the mangled name if that fails.

    :param demangle: returns a name that it cannot demangle unchanged.
    """
    # the name of a type is not a symbol: `i` is `int`, and may also be a function
    prefix, shown = "typeinfo for ", demangle(f"_ZTI{mangled}")
    return shown[len(prefix):] if shown.startswith(prefix) else mangled


@if_unreadable(None)
def class_of(memory: Memory, in_image: InImage, address: int) -> str | None:
    """The mangled class name of a polymorphic object, or None.

    A freed object keeps its class until its memory is overwritten. During construction and destruction the class of an
    object is one of its base classes.

    :param in_image: whether an address is in a loaded file.
    :param address: the object, or a base of it with virtual functions.
    """
    type_info = _find_type(memory, in_image, address)
    return read_type_name(memory, type_info) if type_info else None


def _find_type(memory: Memory, in_image: InImage, address: int) -> int | None:
    """The type of a polymorphic object; its virtual table and the type must be in loaded files."""
    vtable = _aligned_in_image(read_u64(memory, address), in_image) if address % 8 == 0 else None
    if vtable is None or not -_MAX_OFFSET < _read_i64(memory, vtable + _VTABLE_TOP) <= 0:
        return None
    type_info = _aligned_in_image(read_u64(memory, vtable + _VTABLE_TYPE), in_image)
    return type_info if type_info and _kind(memory, in_image, type_info) in _CLASS_KINDS else None


def _kind(memory: Memory, in_image: InImage, type_info: int) -> str | None:
    """The class of a type information: ``si_class``, ``pointer``; None if it is not a type information."""
    vtable = _aligned_in_image(read_u64(memory, type_info), in_image)
    own_type = _aligned_in_image(read_u64(memory, vtable + _VTABLE_TYPE), in_image) if vtable else None
    if own_type is None or not in_image(read_u64(memory, own_type + _TYPE_NAME)) \
            or not in_image(read_u64(memory, type_info + _TYPE_NAME)):
        return None
    match = _TYPE_INFO_CLASS.match(read_type_name(memory, own_type) or "")
    return match[1] if match else None


def _aligned_in_image(address: int, in_image: InImage) -> int | None:
    return address if address % 8 == 0 and in_image(address) else None


def _read_i64(memory: Memory, address: int) -> int:
    return int.from_bytes(memory.read(address, 8), "little", signed=True)


def _iter_classes(memory: Memory, in_image: InImage, type_info: int, address: int) -> Iterator[tuple[str, int]]:
    """Iterate over an object's class and its bases, nearest first: (mangled name, address)."""
    waiting, seen = [(type_info, address)], {(type_info, address)}
    for found in waiting:
        name = read_type_name(memory, found[0])
        if name is not None:
            yield name, found[1]
        try:
            for base in _bases(memory, in_image, *found):
                if base not in seen and len(waiting) < _MAX_CLASSES:
                    seen.add(base)
                    waiting.append(base)
        except GdbextError:
            continue


def _bases(memory: Memory, in_image: InImage, type_info: int, address: int) -> Iterator[tuple[int, int]]:
    kind = _kind(memory, in_image, type_info)
    if kind == "si_class":  # one base, at offset 0
        yield read_u64(memory, type_info + _TYPE_REST), address
    elif kind == "vmi_class":
        _, count = _VMI.unpack(memory.read(type_info + _TYPE_REST, _VMI.size))
        if count > _MAX_BASES:
            raise CorruptStructure(type_info, f"a class of {count} bases")
        for base, flags in _BASE.iter_unpack(memory.read(type_info + _TYPE_REST + _VMI.size, _BASE.size * count)):
            offset = flags >> _BASE_OFFSET_SHIFT
            if flags & _BASE_IS_VIRTUAL:  # the offset of the base is in the virtual table
                vtable = read_u64(memory, address)
                offset = _read_i64(memory, vtable + offset) if in_image(vtable) else -1
            if 0 <= offset < _MAX_OFFSET:
                yield base, address + offset


# -- exceptions -----------------------------------------------------------------------------------------------

@record
class CxxException:
    """An exception that has been thrown and not yet destroyed.

    `type` is mangled. `is_caught`: a handler has caught it, possibly the one that ends the program. `text` is its
    message, or None. `evidence` is ``recorded`` if a class of the standard library stores the text there, ``inferred``
    if it is the first text in the object; `why` names the source.
    """

    address: int
    type: str
    is_caught: bool
    text: str | None = None
    evidence: str | None = None
    why: str | None = None


def find_exceptions(memory: Memory, words: Iterable[int], in_image: InImage) -> list[CxxException]:
    """Find exceptions that words point to, and those that were being handled when they were caught, each once.

    They are in the order of the words, except that an exception precedes those whose handling it interrupted: the first
    one is the one that ends the program. Stale words may point to destroyed exceptions, which are left out unless
    their memory seems intact.

    :param words: words of a thread's stack, from the innermost frame, and its registers; at most 65536 are used.
    :param in_image: whether an address is in a loaded file.
    """
    found: dict[int, CxxException] = {}
    handled_before: dict[int, int] = {}
    for word in dict.fromkeys(itertools.islice(words, _MAX_WORDS)):
        if word % 16 or word < FIRST_PAGES or word >> 48:  # headers and objects are aligned for any type
            continue
        # functions that throw and catch have pointers to the header, the object behind it, or the start of both
        waiting = [word, word - _THROWN, *(word - start for start in _STARTS)]
        last = None
        while waiting and len(found) < _MAX_EXCEPTIONS:
            place = waiting.pop(0)
            try:
                primary = _primary(memory, place)
                exception = _exception(memory, in_image, primary) if primary is not None else None
                if primary is None or exception is None:
                    continue
                before = read_u64(memory, place + _NEXT_EXCEPTION) if exception.is_caught else 0
            except GdbextError:
                continue
            if last is not None:
                handled_before[last] = primary
            if primary in found:
                break
            found[primary] = exception
            last = primary
            waiting = [before - _STARTS[0]] if before else []
    return [found[header] for header in _newest_first(found, handled_before)]


def _newest_first(headers: Iterable[int], handled_before: Mapping[int, int]) -> list[int]:
    """Order exceptions so that each is followed by those that were being handled before it."""
    ordered: dict[int, None] = {}
    older = set(handled_before.values())
    for header in sorted(headers, key=lambda header: header in older):
        at: int | None = header
        while at is not None and at not in ordered:
            ordered[at] = None
            at = handled_before.get(at)
    return list(ordered)


def _primary(memory: Memory, header: int) -> int | None:
    """The ``_Unwind_Exception`` before the thrown object, from that header or a dependent one."""
    exception_class = memory.read(header, 8)
    vendor = _VENDORS.get(exception_class[1:])
    if vendor is None or exception_class[0] > 1:
        return None
    if exception_class[0] == 0:
        return header
    primary = read_u64(memory, header + vendor.primary) - _THROWN
    return primary if memory.read(primary, 8) == b"\0" + exception_class[1:] else None


def _exception(memory: Memory, in_image: InImage, header: int) -> CxxException | None:
    vendor = _VENDORS.get(memory.read(header, 8)[1:])
    if vendor is None:
        return None
    references, *unused = vendor.counter.unpack(memory.read(header + vendor.reference_count, vendor.counter.size))
    type_info = read_u64(memory, header + _EXCEPTION_TYPE)
    # a freed exception has zeros or malloc's data here
    if any(unused) or not 1 <= references <= _MAX_REFERENCES or not in_image(type_info) \
            or not in_image(read_u64(memory, header + _TERMINATE_HANDLER)):
        return None
    kind, name = _kind(memory, in_image, type_info), read_type_name(memory, type_info)
    if kind is None or name is None:
        return None
    handlers = int.from_bytes(memory.read(header + _HANDLER_COUNT, 4), "little", signed=True)
    address = header + _THROWN
    message = _find_message(memory, in_image, type_info, name, address)
    return CxxException(address, name, handlers != 0, *message or ())


@if_unreadable(None)
def _find_message(memory: Memory, in_image: InImage, type_info: int, name: str,
                  address: int) -> tuple[str, str, str] | None:
    """The message of an exception: (text, evidence, why)."""
    plain = _read_plain(memory, name, address)
    if plain is not None:
        return plain, "recorded", "the thrown value"
    classes = list(_iter_classes(memory, in_image, type_info, address))
    for base, place in classes:
        if base in _FILESYSTEM_ERRORS:
            text = _read_filesystem_error(memory, place)
            if text is not None:
                return text, "recorded", "text of its std::filesystem::filesystem_error"
        if base in _STANDARD_TEXT:
            text = _decode(_cow_string(memory, place + _STANDARD_TEXT[base]))
            if text is not None:
                return text, "recorded", f"text of its std::{base[4:]}"
    if any(base == _EXCEPTION for base, _ in classes):
        return _guess(memory, in_image, address)
    return None


@if_unreadable(None)
def _read_filesystem_error(memory: Memory, address: int) -> str | None:
    return read_string(memory, read_u64(memory, address + _FILESYSTEM_IMPL) + _FILESYSTEM_TEXT)


def _read_plain(memory: Memory, name: str, address: int) -> str | None:
    """The thrown value if it is a number or a text itself."""
    if name in _INTEGERS:
        form = _INTEGERS[name]
        return str(form.unpack(memory.read(address, form.size))[0])
    if name in _POINTERS_TO_TEXT:
        return _decode(read_cstring(memory, read_u64(memory, address), _MAX_TEXT))
    if name == _STRING:
        return read_string(memory, address)
    return _decode(_cow_string(memory, address)) if name == _COW_STRING else None


# -- texts ----------------------------------------------------------------------------------------------------

def read_string(memory: Memory, address: int) -> str | None:
    """Read at most 4096 bytes of a ``std::string``; None if the memory is not one.

    Source: GCC 12.2 libstdc++-v3/include/bits/basic_string.h (the ABI since GCC 5).

    :param address: ``std::string *`` in the target.
    """
    return _decode(_string(memory, address))


@if_unreadable(None)
def _string(memory: Memory, address: int) -> bytes | None:
    start, length, capacity = _STRING_HEAD.unpack(memory.read(address, _STRING_HEAD.size))
    if start == address + _STRING_BUFFER:
        capacity = _SHORT
    elif capacity <= _SHORT:
        return None
    return _counted(memory, start, length, capacity)


@if_unreadable(None)
def _cow_string(memory: Memory, address: int) -> bytes | None:
    """Read libstdc++'s string with shared ownership, used before GCC 5 and still in exceptions, by a pointer to it."""
    start = read_u64(memory, address)
    length, capacity, references = _COW_HEAD.unpack(memory.read(start - _COW_HEAD.size, _COW_HEAD.size))
    return _counted(memory, start, length, capacity) if -1 <= references <= _MAX_REFERENCES else None


def _counted(memory: Memory, start: int, length: int, capacity: int) -> bytes | None:
    if not length <= capacity < _MAX_LENGTH or memory.read(start + length, 1) != b"\0":
        return None
    return memory.read(start, min(length, _MAX_TEXT))


def _decode(data: bytes | None) -> str | None:
    return None if data is None else data.decode(errors="backslashreplace")


def _guess(memory: Memory, in_image: InImage, address: int) -> tuple[str, str, str] | None:
    """Guess the message of an object: its first text, with strings before constants that it points to."""
    def static(place: int) -> bytes | None:
        try:
            start = read_u64(memory, place)
            data = read_cstring(memory, start, _MAX_TEXT) if in_image(start) else b""
        except GdbextError:
            return None
        return data if len(data) >= _MIN_GUESS else None

    ways = (("std::string in the object", lambda place: _string(memory, place)),
            ("shared string of the object", lambda place: _cow_string(memory, place)),
            ("constant text that the object points to", static))
    for what, read in ways:
        for place in range(address + 8, address + _object_size(memory, address), 8):
            data = read(place)
            if data and is_text(data):
                return data.decode(), "inferred", f"the first {what}"
    return None


def is_text(data: bytes) -> bool:
    """Whether bytes are printable UTF-8 text."""
    try:
        return all(char.isprintable() or char in "\n\r\t" for char in data.decode())
    except UnicodeDecodeError:
        return False


@if_unreadable(_MAX_OBJECT)
def _object_size(memory: Memory, address: int) -> int:
    """The largest possible size of a thrown object in bytes, by the size of its block of memory."""
    size = read_u64(memory, address - _HEADERS - _BLOCK_SIZE) & ~_BLOCK_FLAGS
    own = size - _BLOCK_SIZE - _HEADERS
    return min(own, _MAX_OBJECT) if size % 16 == 0 and own > 0 else _MAX_OBJECT
