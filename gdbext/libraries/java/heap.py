"""Objects in the heap of a HotSpot machine: references to them, their classes, and the offsets of their fields.

A collector may move objects, and writes the references to them later. Serial, Parallel and G1 move objects only while
all threads of Java are paused, and mark that time in ``CollectedHeap``. ZGC moves them at any time. Bits of a
reference then say whether it is up to date. References that may be out of date, and heaps of other collectors, are not
decoded.

Sources: OpenJDK 11, 17, 21 and 25 src/hotspot/share/runtime/{vmStructs.cpp,flags/jvmFlag.hpp},
oops/{compressedOops.inline,markWord,fieldInfo,instanceKlass,constantPool}.hpp, utilities/unsigned5.hpp,
gc/shared/collectedHeap.hpp, gc/z/zAddress.inline.hpp.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Final

from gdbext.errors import CorruptStructure, GdbextError, if_unreadable
from gdbext.inferior.cache import read_cstring, read_u32, read_u64
from gdbext.inferior.protocol import Memory
from gdbext.libraries.java.hotspot import Table
from gdbext.record import record
from gdbext.remembered import remembered

_STOPS_THREADS: Final = ("UseSerialGC", "UseParallelGC", "UseG1GC")
_WANTED: Final = frozenset((*_STOPS_THREADS, "UseZGC", "ZGenerational", "UseCompressedOops",
                            "UseCompressedClassPointers", "UseCompactObjectHeaders"))
_MAX_FLAGS, _MAX_FLAG_SIZE, _MAX_FLAG_NAME = 1 << 12, 128, 64
# whether the collector moves objects now; the second name is that of JDK 11 and 17
_MOVES: Final = ("CollectedHeap._is_stw_gc_active", "CollectedHeap._is_gc_active")
# by version: the base and the shift of compressed references, and those of compressed pointers to classes
_REFERENCES: Final = ("CompressedOops.", "CompressedOops._narrow_oop.", "Universe._narrow_oop.")
_CLASSES: Final = ("CompressedKlassPointers.", "CompressedKlassPointers._narrow_klass.", "Universe._narrow_klass.")
_MAX_SHIFT, _MAX_CLASS_NAME = 10, 512
_CLASS_NAME: Final = re.compile(r"[^\s.;\x00-\x20]+")
# markWord, with compact headers: the bits above these are the compressed pointer to the class
_SHIFT_OF_CLASS = 42
_MAX_SUPERS, _MAX_FIELDS, _MAX_STREAM = 64, 1 << 11, 1 << 16
_MAX_INDEX = 1 << 16
# FieldInfo up to JDK 20, six ``u2``: flags, name, signature, initial value, offset with two bits for its meaning
_FIELD = struct.Struct("<HHHHI")
_IS_OFFSET, _OFFSET_BITS = 1, 2
# JVM_ACC_FIELD_INTERNAL: the name is not in the constants of the class
_INTERNAL_FIELD = 0x400
# FieldFlags since JDK 21: those with one more number each
_WITH_NUMBER = (1 << 0, 1 << 2, 1 << 4)
_KNOWN_FLAGS = (1 << 5) - 1
_STATIC = 0x8
# UNSIGNED5: bytes begin with 1; those from this on have a byte after them, up to five
_MORE, _BITS, _MOST_BYTES = 192, 6, 5


@record
class Encoding:
    """How references are stored.

    `narrow` and `classes` are the base and the shift of compressed references and class pointers, or None. With
    `compact` headers, the class is in the first word. A reference with one of the `stale` bits may be out of date. The
    bits below `shift` of the others are not part of the address.
    """

    narrow: tuple[int, int] | None
    classes: tuple[int, int] | None
    compact: bool
    stale: int = 0
    shift: int = 0


@if_unreadable(None)
def read_encoding(memory: Memory, table: Table) -> Encoding | None:
    """Read how references are stored.

    :return: None if the collector moves objects now, or is another one than those above.
    """
    flags = _read_flags(memory, table)
    stale = shift = 0
    if any(flags.get(name) for name in _STOPS_THREADS):
        moves = next((table.offsets[name] for name in _MOVES if name in table.offsets), None)
        heap = table.statics.get("Universe._collectedHeap")
        if moves is None or heap is None or memory.read(read_u64(memory, heap) + moves, 1) != b"\0":
            return None
    elif flags.get("UseZGC"):
        # in JDK 21 to 23, the flag decides which one of two is used
        stale, shift = _bits_of_zgc(memory, table, flags.get("ZGenerational"))
        if not stale:
            return None
    else:
        return None
    narrow = _scale(memory, table, _REFERENCES) if flags.get("UseCompressedOops") else None
    compact = bool(flags.get("UseCompactObjectHeaders"))
    classes = _scale(memory, table, _CLASSES) if compact or flags.get("UseCompressedClassPointers") else None
    return Encoding(narrow, classes, compact, stale, shift)


def _read_flags(memory: Memory, table: Table) -> dict[str, bool]:
    """The values of the options that matter here; those that the machine does not have are missing."""
    at, count = (read_u64(memory, table.statics[f"JVMFlag.{name}"]) if f"JVMFlag.{name}" in table.statics else 0
                 for name in ("flags", "numFlags"))
    size = table.sizes.get("JVMFlag", 0)
    places = [table.offsets.get(f"JVMFlag.{name}", size) for name in ("_name", "_addr")]
    if not at or not count <= _MAX_FLAGS or not 16 <= size <= _MAX_FLAG_SIZE or max(places) > size - 8:
        return {}
    data = memory.read(at, size * count)
    found = {}
    for start in range(0, size * count, size):
        name_at, value_at = (int.from_bytes(data[start + place:start + place + 8], "little") for place in places)
        name = read_cstring(memory, name_at, _MAX_FLAG_NAME).decode("ascii", "replace") if name_at else ""
        if name in _WANTED:
            found[name] = memory.read(value_at, 1) != b"\0"
    return found


def _bits_of_zgc(memory: Memory, table: Table, generational: bool | None) -> tuple[int, int]:
    """The bits of a reference of ZGC that may be out of date, or 0, and the bits below the address."""
    def value(member: str, size: int = 8) -> int:
        globals_at = table.statics.get(f"{member.partition('.')[0]}._instance_p")
        instance = read_u64(memory, globals_at) if globals_at else 0
        offset = table.offsets.get(member)
        if not instance or offset is None:
            return 0
        return int.from_bytes(memory.read(read_u64(memory, instance + offset), size), "little")

    if generational is False:
        return value("XGlobalsForVMStructs._XAddressBadMask"), 0
    if "ZGlobalsForVMStructs._ZPointerLoadBadMask" in table.offsets:
        shift = value("ZGlobalsForVMStructs._ZPointerLoadShift")
        return (value("ZGlobalsForVMStructs._ZPointerLoadBadMask"), shift) if 0 < shift < 32 else (0, 0)
    return value("ZGlobalsForVMStructs._ZAddressBadMask"), 0


def _scale(memory: Memory, table: Table, versions: Sequence[str]) -> tuple[int, int]:
    """The base and the shift of compressed pointers."""
    for prefix in versions:
        base, shift = (table.statics.get(f"{prefix}{name}") for name in ("_base", "_shift"))
        if base is not None and shift is not None:
            found = read_u64(memory, base), read_u32(memory, shift)
            if found[1] <= _MAX_SHIFT:
                return found
    raise CorruptStructure(0, "no base of compressed pointers")


@if_unreadable(None)
def class_of_monitor(memory: Memory, table: Table, objects: Objects, address: int) -> str | None:
    """The name of the class of the object that a monitor belongs to, as in Java code; None if it is not found.

    :param address: ``ObjectMonitor *``.
    """
    member = table.offsets.get("ObjectMonitor._object")
    found = objects.refer_to(address + member) if member is not None else ()
    return next((objects.names(subject)[0] for subject in found), None)


class Objects:
    """Reads objects. All methods raise `GdbextError` if memory is damaged, or a reference may be out of date."""

    def __init__(self, memory: Memory, table: Table, encoding: Encoding,
                 is_in_library: Callable[[int], bool]) -> None:
        self._memory = memory
        self._table = table
        self._encoding = encoding
        self._is_in_library = is_in_library

    def from_word(self, word: int) -> int:
        """The address of an object from a reference that is not compressed; 0 for null."""
        if word >> self._encoding.shift == 0:
            return 0
        if word & self._encoding.stale:
            raise CorruptStructure(word, "the collector may have moved the object")
        return word >> self._encoding.shift

    def refer_to(self, at: int) -> tuple[int, ...]:
        """The object to which a member of a structure of the machine refers; nothing if it is not known.

        :param at: the place of a reference, or since JDK 16 of the address of one.
        """
        word = read_u64(self._memory, at)
        for read in (self._pointer, int):
            try:
                subject = self.from_word(read(word))
                if subject and self.names(subject):
                    return (subject,)
            except GdbextError:
                pass
        return ()

    def _pointer(self, address: int) -> int:
        return read_u64(self._memory, address)

    def reference(self, subject: int, owner: str, name: str, signature: str) -> int:
        """The address of the object that a field refers to; 0 for null. For the arguments, see `place`."""
        at = self.place(subject, owner, name, signature)
        if self._encoding.narrow is None:
            return self.from_word(read_u64(self._memory, at))
        base, shift = self._encoding.narrow
        word = read_u32(self._memory, at)
        return base + (word << shift) if word else 0

    def place(self, subject: int, owner: str, name: str, signature: str) -> int:
        """The address of a field of an object.

        :param subject: the object.
        :param owner: the class that declares the field, such as ``java.lang.Thread``.
        :param signature: the type, such as ``J``.
        """
        for klass in self.classes(subject):
            if self._name_of(klass) == owner:
                return subject + self._offset(klass, name, signature)
        raise CorruptStructure(subject, f"no {owner}")

    @if_unreadable(False)
    def has(self, subject: int, owner: str, name: str) -> bool:
        """Whether the class `owner` of an object has a field of this name that is not static."""
        return any(self._fields_of(klass, name) for klass in self.classes(subject) if self._name_of(klass) == owner)

    def names(self, subject: int) -> tuple[str, ...]:
        """The names of an object's class and of its base classes, the class itself first."""
        return tuple([self._name_of(klass) for klass in self.classes(subject)])

    def classes(self, subject: int) -> tuple[int, ...]:
        """The ``Klass *`` of an object and of the base classes."""
        encoding = self._encoding
        if subject & 7 or not subject:
            raise CorruptStructure(subject, "no object")
        if encoding.compact:
            klass = read_u64(self._memory, subject) >> _SHIFT_OF_CLASS
        else:
            at = subject + self._member("oopDesc._metadata._klass")
            klass = read_u64(self._memory, at) if encoding.classes is None else read_u32(self._memory, at)
        if encoding.classes is not None:
            klass = encoding.classes[0] + (klass << encoding.classes[1])
        if not klass:
            raise CorruptStructure(subject, "no object")
        return self._with_supers(klass)

    @remembered
    def _with_supers(self, klass: int) -> tuple[int, ...]:
        found: dict[int, None] = {}
        while klass and klass not in found and len(found) < _MAX_SUPERS:
            found[klass] = None
            klass = read_u64(self._memory, klass + self._member("Klass._super"))
        return tuple(found)

    @remembered
    def _name_of(self, klass: int) -> str:
        # a ``Klass`` begins with the address of its virtual functions, a table that archives of classes have a copy of
        if klass & 7 or not self._is_in_library(read_u64(self._memory, read_u64(self._memory, klass))):
            raise CorruptStructure(klass, "no class")
        name = self._symbol(klass + self._member("Klass._name"))
        if not _CLASS_NAME.fullmatch(name):
            raise CorruptStructure(klass, "no name of a class")
        return name.replace("/", ".")

    def _offset(self, klass: int, name: str, signature: str) -> int:
        for found, offset in self._fields_of(klass, name):
            if found == signature:
                return offset
        raise CorruptStructure(klass, f"no field {name}")

    @remembered
    def _fields_of(self, klass: int, name: str) -> tuple[tuple[str, int], ...]:
        """The type and the offset of each field of this name that is not static: one, or none."""
        pool = read_u64(self._memory, klass + self._member("InstanceKlass._constants"))
        first = pool + self._table.sizes.get("ConstantPool", 0)
        length = read_u32(self._memory, pool + self._member("ConstantPool._length"))
        if first == pool or length > _MAX_INDEX:
            raise CorruptStructure(pool, "no constants")
        return tuple([(self._symbol(first + 8 * signature), offset) for index, signature, offset in self._fields(klass)
                      if 0 < index < length and 0 < signature < length and self._symbol(first + 8 * index) == name])

    @remembered
    def _symbol(self, at: int) -> str:
        symbol = read_u64(self._memory, at)
        length = int.from_bytes(self._memory.read(symbol + self._member("Symbol._length"), 2), "little")
        data = self._memory.read(symbol + self._member("Symbol._body[0]"), min(length, _MAX_CLASS_NAME))
        return data.decode("utf-8", "replace")

    def _fields(self, klass: int) -> Iterator[tuple[int, int, int]]:
        """The fields of a class that are not static: the indexes of name and signature in the constants, the offset."""
        if "InstanceKlass._fieldinfo_stream" in self._table.offsets:
            stream = read_u64(self._memory, klass + self._member("InstanceKlass._fieldinfo_stream"))
            size = read_u32(self._memory, stream + self._member("Array<int>._length"))
            data = self._memory.read(stream + self._member("Array<u1>._data"), min(size, _MAX_STREAM))
            yield from _iter_fields(data)
            return
        # up to JDK 20
        count = int.from_bytes(self._memory.read(klass + self._member("InstanceKlass._java_fields_count"), 2), "little")
        array = read_u64(self._memory, klass + self._member("InstanceKlass._fields"))
        data = self._memory.read(array + self._member("Array<u2>._data"), _FIELD.size * min(count, _MAX_FIELDS))
        for flags, name, signature, _, packed in _FIELD.iter_unpack(data):
            if not flags & (_STATIC | _INTERNAL_FIELD) and packed & (1 << _OFFSET_BITS) - 1 == _IS_OFFSET:
                yield name, signature, packed >> _OFFSET_BITS

    def _member(self, name: str) -> int:
        offset = self._table.offsets.get(name)
        if offset is None:
            raise CorruptStructure(0, f"the table lacks {name}")
        return offset


def _iter_fields(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Decode a stream of fields (``FieldInfoStream``), as `Objects._fields` gives them."""
    numbers = _iter_numbers(data)
    # of the class, and injected by the machine, which come last
    count, *_ = (*islice(numbers, 2), 0)
    for _ in range(min(count, _MAX_FIELDS)):
        found = tuple(islice(numbers, 5))
        if len(found) < 5 or found[4] & ~_KNOWN_FLAGS:
            # a later version may have further numbers
            return
        name, signature, offset, access, flags = found
        for _ in islice(numbers, sum(bool(flags & flag) for flag in _WITH_NUMBER)):
            pass
        if not access & _STATIC:
            yield name, signature, offset


def _iter_numbers(data: bytes) -> Iterator[int]:
    """Decode numbers of one to five bytes (``UNSIGNED5``)."""
    at = 0
    while at < len(data):
        number = 0
        for index in range(_MOST_BYTES):
            if at >= len(data):
                return
            byte = data[at]
            at += 1
            number += (byte - 1) << _BITS * index
            if byte < _MORE:
                break
        yield number & 0xFFFFFFFF
