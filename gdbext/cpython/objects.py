"""Bounded reading of Python objects from memory: str, bytes, int, dict, set, type names, instance attributes.

Each function ends after a bounded number of reads, also in damaged memory. It returns a value or raises
`CorruptStructure` or `MemoryUnreadable`. Objects are addresses (``PyObject *``).
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from gdbext.errors import CorruptStructure, if_unreadable
from gdbext.inferior.cache import read_cstring, read_u64
from gdbext.inferior.protocol import Memory
from gdbext.layout.table import Layouts
from gdbext.remembered import remembered

#: Longest string that is read, in characters; names and file names are far shorter.
MAX_STRING = 4096
#: Longest line table that is read, in bytes.
MAX_BYTES = 1 << 20
#: Largest dict that is read, in entries.
MAX_ENTRIES = 1 << 16
#: Largest number of attributes of one object, and of items of one tuple or list.
MAX_ATTRIBUTES = 4096
#: Largest table of a set, in entries, unless the caller passes another limit. At least a fifth of them are in use.
_MAX_SET = 1 << 20
#: Entries of a set's table that are read at a time.
_SET_CHUNK = 64
#: Largest plausible size of an object (bytes, items or entries) of which only the beginning is read.
_MAX_SIZE = 1 << 40
#: Longest ``str`` key of a dict that is read, in characters.
_MAX_KEY = 256
#: Longest chain of ``tp_base``.
_MAX_BASES = 64

_CODECS = {1: "latin-1", 2: "utf-16-le", 4: "utf-32-le"}
_UNITS = {1: "B", 2: "H", 4: "I"}
_DIGIT = 30  # PyLong_SHIFT
_MANAGED_DICT = 1 << 4  # Py_TPFLAGS_MANAGED_DICT, CPython 3.11 and later
_INLINE_VALUES = 1 << 2  # Py_TPFLAGS_INLINE_VALUES, CPython 3.13 and later
_HEAPTYPE = 1 << 9
_TYPE_SUBCLASS = 1 << 31  # Py_TPFLAGS_TYPE_SUBCLASS


class _Instances(NamedTuple):
    """Where the instances of a type keep their attributes.

    `size` is that of an instance in bytes. `keys` (``PyDictKeysObject *``) has the attribute names that all instances
    share.
    """

    managed: bool
    dict_offset: int
    size: int
    inline_values: bool
    keys: int


class Objects:
    """Reads the objects of one runtime of one target."""

    def __init__(self, memory: Memory, layouts: Layouts) -> None:
        self._memory = memory
        self._layouts = layouts
        self._version = layouts.version_tuple
        self._managed_distance = 8 if layouts.build.startswith("free-threaded") else 24
        # the array of values follows a small header since 3.13
        self._values_at = layouts["PyDictValues"].offset("values") if layouts.has("PyDictValues", "values") else 0
        self._unicode = layouts["PyASCIIObject"].reader("length", "state_kind", "state_compact", "state_ascii")
        self._type_of = layouts["PyObject"].reader("ob_type")

    def read_members(self, struct: str, address: int, *members: str) -> tuple[int, ...]:
        """Members of a C structure at an address; see `Struct.reader`."""
        return self._layouts[struct].reader(*members)(self._memory, address)

    def read_member(self, struct: str, address: int, member: str) -> int:
        """One member of a C structure at an address; see `Struct.reader`."""
        return self._layouts[struct].reader(member)(self._memory, address)[0]

    def type_address(self, address: int) -> int:
        """``ob_type`` of an object."""
        return self._type_of(self._memory, address)[0]

    def references(self, address: int) -> int:
        """An object's number of references; -1 if it cannot be known, as for an immortal object.

        Sources: CPython 3.13 Include/object.h. Free-threaded builds count the references of the owning thread and
        those of other threads apart; the lowest two bits of the latter are flags.
        """
        if "ob_ref_local" in self._layouts["PyObject"]:
            local, shared = self.read_members("PyObject", address, "ob_ref_local", "ob_ref_shared")
            count = local + (shared >> 2)
        else:
            count = self.read_member("PyObject", address, "ob_refcnt")
        return count if 0 < count < 1 << 30 else -1

    def type_name(self, address: int) -> str:
        """The ``tp_name`` of an object's type, such as ``code`` or ``_thread.lock``."""
        return self.name_of_type(self.type_address(address))

    def is_object(self, address: int) -> bool:
        """Whether an address holds an object: its type is an object whose own type makes types.

        :raises MemoryUnreadable: the address, or that of its type, is not mapped.
        """
        return not address & 7 and self.makes_types(self.type_address(self.type_address(address)))

    def makes_types(self, kind: int) -> bool:
        """Whether a type (``PyTypeObject *``) is ``type`` or derived from it, so that its instances are types."""
        return bool(self.read_member("PyTypeObject", kind, "tp_flags") & _TYPE_SUBCLASS)

    @remembered
    def name_of_type(self, kind: int) -> str:
        """The ``tp_name`` of a type (``PyTypeObject *``)."""
        return self._c_string(self.read_member("PyTypeObject", kind, "tp_name"))

    def _c_string(self, address: int) -> str:
        return read_cstring(self._memory, address, 200).decode("utf-8", "replace")

    @remembered
    def c_function_name(self, definition: int) -> str:
        """The name of a function written in C (``PyMethodDef *``)."""
        return self._c_string(self.read_member("PyMethodDef", definition, "ml_name"))

    def function_name(self, address: int) -> str | None:
        """The name of a function written in Python, or compiled by Cython; None for any other object.

        A ``CyFunctionObject`` begins with a ``PyCFunctionObject`` (Cython 3.0 Cython/Utility/CythonFunction.c).
        """
        kind = self.type_name(address)
        if kind.endswith("cython_function_or_method"):
            return self.c_function_name(self.read_member("PyCFunctionObject", address, "m_ml"))
        if kind != "function":
            return None
        return self.key_name(self.read_member("PyFunctionObject", address, "func_name"))

    def bound_method(self, address: int) -> tuple[int, str | None]:
        """The object that a method is bound to and the method's name; (0, None) for any other object.

        A function written in C is bound to its module.
        """
        kind = self.type_name(address)
        if kind in ("builtin_function_or_method", "builtin_method"):
            definition, owner = self.read_members("PyCFunctionObject", address, "m_ml", "m_self")
            return owner, self.c_function_name(definition)
        if kind == "method":
            function, owner = self.read_members("PyMethodObject", address, "im_func", "im_self")
            return owner, self.function_name(function)
        return 0, None

    def type_names(self, address: int) -> tuple[str, ...]:
        """The ``tp_name`` of an object's type and of its base types, nearest first; see `base_types`."""
        return self._base_names(self.type_address(address))

    @remembered
    def _base_names(self, kind: int) -> tuple[str, ...]:
        return tuple([self.name_of_type(base) for base in self.base_types(kind)])

    def base_types(self, kind: int) -> Iterator[int]:
        """A type (``PyTypeObject *``) and its base types, nearest first.

        With several bases only the one that determines the memory layout is followed (``tp_base``).
        """
        for _ in range(_MAX_BASES):
            if not kind:
                return
            yield kind
            kind = self.read_member("PyTypeObject", kind, "tp_base")

    def string(self, address: int) -> str:
        """The text of a ``str`` (``PyUnicodeObject *``), cut after `MAX_STRING` characters.

        Source: CPython 3.13 Include/cpython/unicodeobject.h.

        :raises CorruptStructure: the object is not a string.
        """
        length, kind, data = self._characters(address)
        cut = min(length, MAX_STRING)
        text = self._memory.read(data, cut * kind).decode(_CODECS[kind], "replace")
        return text if cut == length else text + "..."

    def string_start(self, address: int, limit: int) -> tuple[str, int]:
        """The first `limit` characters of a ``str``, and its length; see `string`. Lone surrogates are kept."""
        length, kind, data = self._characters(address)
        cut = min(length, limit)
        units = struct.unpack(f"<{cut}{_UNITS[kind]}", self._memory.read(data, cut * kind))
        return "".join([chr(unit) if unit <= sys.maxunicode else "\ufffd" for unit in units]), length

    def _characters(self, address: int) -> tuple[int, int, int]:
        """The number of characters of a ``str``, the size of each in bytes, and their address."""
        length, kind, compact, is_ascii = self._unicode(self._memory, address)
        if kind not in _CODECS or length < 0 or (is_ascii and kind != 1):
            raise CorruptStructure(address, "not a str")
        if compact:
            header = self._layouts["PyASCIIObject" if is_ascii else "PyCompactUnicodeObject"]
            return length, kind, address + header.size
        return length, kind, self.read_member("PyUnicodeObject", address, "data")

    def size(self, address: int, most: int = _MAX_SIZE) -> int:
        """The number of items of a ``list`` or ``tuple``, or bytes of a ``bytes`` or ``bytearray`` (``PyVarObject *``).

        :raises CorruptStructure: the size is negative, or more than `most`.
        """
        size = self.read_member("PyVarObject", address, "ob_size")
        if not 0 <= size <= most:
            raise CorruptStructure(address, f"an object of {size} items")
        return size

    def bytes_start(self, address: int, limit: int) -> bytes:
        """The first `limit` bytes of a ``bytes`` (``PyBytesObject *``)."""
        at = address + self._layouts["PyBytesObject"].offset("ob_sval")
        return self._memory.read(at, min(self.size(address), limit))

    def bytearray_start(self, address: int, limit: int) -> bytes:
        """The first `limit` bytes of a ``bytearray`` (``PyByteArrayObject *``)."""
        size = min(self.size(address), limit)
        return self._memory.read(self.read_member("PyByteArrayObject", address, "ob_start"), size) if size else b""

    def bytes(self, address: int) -> bytes:
        """The contents of a ``bytes`` (``PyBytesObject *``).

        :raises CorruptStructure: there are more than `MAX_BYTES`.
        """
        return self.bytes_start(address, self.size(address, MAX_BYTES))

    def tuple_items(self, address: int) -> tuple[int, ...]:
        """The items of a ``tuple`` (``PyTupleObject *``).

        :raises CorruptStructure: there are more than `MAX_ATTRIBUTES`.
        """
        return self.tuple_start(address, self.size(address, MAX_ATTRIBUTES))

    def list_items(self, address: int) -> tuple[int, ...]:
        """The items of a ``list`` (``PyListObject *``); see `tuple_items`."""
        return self.list_start(address, self.size(address, MAX_ATTRIBUTES))

    def tuple_start(self, address: int, limit: int) -> tuple[int, ...]:
        """The first `limit` items of a ``tuple`` (``PyTupleObject *``)."""
        return self._words(address + self._layouts["PyTupleObject"].offset("ob_item"), min(self.size(address), limit))

    def list_start(self, address: int, limit: int) -> tuple[int, ...]:
        """The first `limit` items of a ``list`` (``PyListObject *``)."""
        return self._words(self.read_member("PyListObject", address, "ob_item"), min(self.size(address), limit))

    def _words(self, at: int, count: int) -> tuple[int, ...]:
        return struct.unpack(f"<{count}Q", self._memory.read(at, 8 * count)) if count else ()

    def integer(self, address: int, limit: int = 120) -> int:
        """The value of an ``int`` (``PyLongObject *``) of at most `limit` bits.

        Source: CPython 3.13 Include/cpython/longintrepr.h; ``lv_tag`` since 3.12, before that a signed ``ob_size``.
        """
        count, negative = self._digits(address)
        if count > limit // _DIGIT:
            raise CorruptStructure(address, f"an int of {count} digits")
        data = self._memory.read(address + self._layouts["PyLongObject"].offset("ob_digit"), 4 * count)
        digits: tuple[int, ...] = struct.unpack(f"<{count}I", data)
        value = sum(digit << _DIGIT * i for i, digit in enumerate(digits))
        return -value if negative else value

    def integer_bits(self, address: int) -> int:
        """The capacity of an ``int``'s digits in bits (``PyLongObject *``)."""
        return _DIGIT * self._digits(address)[0]

    def _digits(self, address: int) -> tuple[int, bool]:
        """The number of digits of an ``int``, and whether it is negative."""
        if "lv_tag" in self._layouts["PyLongObject"]:
            tag = self.read_member("PyLongObject", address, "lv_tag")
            return tag >> 3, tag & 3 == 2
        size = self.read_member("PyVarObject", address, "ob_size")
        return abs(size), size < 0

    def set_items(self, address: int, most: int = _MAX_SET,
                  may_read: Callable[[], bool] = lambda: True) -> Iterator[int]:
        """The items of a ``set`` or ``frozenset`` (``PySetObject *``).

        Source: CPython 3.13 Objects/setobject.c: an unused entry has no key, a deleted one the hash -1.

        :param may_read: called before each piece of the table; the items end when it returns False.
        :raises CorruptStructure: the size of the table is more than `most`, or not a power of two.
        """
        mask, table = self.read_members("PySetObject", address, "mask", "table")
        if not 0 <= mask < most or mask & (mask + 1):
            raise CorruptStructure(address, f"a set of {mask + 1} entries")
        entry = self._layouts["setentry"]
        start, form, (key, value) = entry.packed("key", "hash")
        for first in range(0, mask + 1, _SET_CHUNK):
            if not may_read():
                return
            data = self._memory.read(table + first * entry.size, min(_SET_CHUNK, mask + 1 - first) * entry.size)
            for offset in range(start, len(data), entry.size):
                fields = form.unpack_from(data, offset)
                if fields[key] and fields[value] != -1:
                    yield fields[key]

    def dict_items(self, address: int) -> Iterator[tuple[int, int]]:
        """(key, value) addresses of a ``dict`` (``PyDictObject *``), at most `MAX_ENTRIES` of them.

        Source: CPython 3.13 Objects/dictobject.c, Include/internal/pycore_dict.h.
        """
        return (entry for entry in self.dict_slots(address) if all(entry))

    def dict_slots(self, address: int, limit: int | None = None) -> Iterator[tuple[int, int]]:
        """The first `limit` entries of a ``dict`` of any size; the value of an unused entry is 0."""
        keys, values = self.read_members("PyDictObject", address, "ma_keys", "ma_values")
        return self._filled(keys, values + self._values_at if values else 0, limit)

    def named_items(self, address: int, limit: int | None = None) -> Iterator[tuple[str, int]]:
        """(name, value) of the entries of a namespace (``PyDictObject *``); see `dict_slots`."""
        return self._with_names(self.dict_slots(address, limit))

    def _with_names(self, slots: Iterable[tuple[int, int]]) -> Iterator[tuple[str, int]]:
        for key, value in slots:
            name = self.key_name(key) if key and value else None
            if name is not None:
                yield name, value

    def dict_size(self, address: int) -> int:
        """The number of entries of a ``dict`` (``PyDictObject *``)."""
        return self.read_member("PyDictObject", address, "ma_used")

    def _filled(self, keys: int, values: int, limit: int | None = None) -> Iterator[tuple[int, int]]:
        slots = self._slots(keys, limit)
        if not values:
            yield from slots
            return
        names = [key for key, _ in slots]
        for i in dict.fromkeys((*self._insertion_order(values), *range(len(names)))):
            if i < len(names):
                yield names[i], read_u64(self._memory, values + 8 * i)

    @if_unreadable(())
    def _insertion_order(self, values: int) -> tuple[int, ...]:
        """Indices of an array of values in the order in which they were filled; empty if that is not recorded.

        The instances of a class share the names and record the order each (CPython 3.14
        Include/internal/pycore_dict.h, get_insertion_order_array; 3.12 _PyDictValues_AddToInsertionOrder).
        """
        if self._layouts.has("PyDictValues", "capacity"):
            capacity, size = self.read_members("PyDictValues", values - self._values_at, "capacity", "size")
            return tuple(self._memory.read(values + 8 * capacity, min(capacity, size)))
        if self._version >= (3, 11):
            # bytes in front of the array, from its start downwards: their number, the number of indices, the indices
            size, = self._memory.read(values - 2, 1)
            return tuple(reversed(self._memory.read(values - 2 - size, size)))
        return ()

    def _slots(self, keys: int, limit: int | None = None) -> Iterator[tuple[int, int]]:
        """(key, value) of the first `limit` entries of a ``PyDictKeysObject``, also unused ones and split tables."""
        known = self._layouts["PyDictKeysObject"]
        count, = known.reader("dk_nentries")(self._memory, keys)
        unicode_keys = False
        if "dk_log2_index_bytes" in known:
            log2_bytes, kind = known.reader("dk_log2_index_bytes", "dk_kind")(self._memory, keys)
            if log2_bytes > 40:
                raise CorruptStructure(keys, "dict keys of impossible size")
            entries = keys + known.offset("dk_indices") + (1 << log2_bytes)
            unicode_keys = kind != 0
        else:
            size, = known.reader("dk_size")(self._memory, keys)
            if not 0 < size < 1 << 40:
                raise CorruptStructure(keys, "dict keys of impossible size")
            width = 1 if size <= 0xFF else 2 if size <= 0xFFFF else 4 if size <= 0xFFFFFFFF else 8
            entries = keys + known.offset("dk_indices") + size * width
        if not 0 <= count <= (MAX_ENTRIES if limit is None else _MAX_SIZE):
            raise CorruptStructure(keys, f"a dict of {count} entries")
        if limit is not None:
            count = min(count, limit)
        entry = self._layouts["PyDictUnicodeEntry" if unicode_keys else "PyDictKeyEntry"]
        read = entry.reader("me_key", "me_value")
        for i in range(count):
            key, value = read(self._memory, entries + i * entry.size)
            yield key, value

    def dict_get(self, address: int, name: str) -> int | None:
        """The value under a ``str`` key of a ``dict`` (``PyDictObject *``), or None."""
        return next((value for key, value in self.named_items(address) if key == name), None)

    @remembered
    @if_unreadable(None)
    def key_name(self, key: int) -> str | None:
        """The text of a dict's key; None if it is not a ``str`` or is longer than any name."""
        length = self.read_member("PyASCIIObject", key, "length")
        return self.string(key) if 0 <= length <= _MAX_KEY else None

    def attribute(self, address: int, name: str) -> int | None:
        """An instance attribute of an object of a class written in Python, or None.

        Source: CPython 3.13 Include/internal/pycore_object.h, Objects/dictobject.c; 3.12 and 3.11 the same files.
        """
        namespace, keys, values = self._attributes_at(address)
        if namespace:
            return self.dict_get(namespace, name)
        position = self._position(keys, name) if keys else None
        return read_u64(self._memory, values + 8 * position) or None if position is not None else None

    def attributes(self, address: int) -> Iterator[tuple[str, int]]:
        """(name, value) of the instance attributes of an object, at most `MAX_ATTRIBUTES` of them; see `attribute`."""
        namespace, keys, values = self._attributes_at(address)
        if namespace:
            yield from self.named_items(namespace, MAX_ATTRIBUTES)
        elif keys:
            yield from self._with_names(self._filled(keys, values, MAX_ATTRIBUTES))

    def class_namespace(self, kind: int) -> int:
        """The ``dict`` of a class's own attributes (``PyDictObject *``, of a ``PyTypeObject *``)."""
        return self.read_member("PyTypeObject", kind, "tp_dict")

    def class_namespaces(self, address: int) -> Iterator[int]:
        """The namespaces (``PyDictObject *``) of an object's class and its bases, up to the first builtin type."""
        for kind in self.base_types(self.type_address(address)):
            flags, namespace = self.read_members("PyTypeObject", kind, "tp_flags", "tp_dict")
            if not flags & _HEAPTYPE or not namespace:
                return
            yield namespace

    def basic_size(self, address: int) -> int:
        """``tp_basicsize`` of an object's type, in bytes."""
        return self._instances_of(self.type_address(address)).size

    def _attributes_at(self, address: int) -> tuple[int, int, int]:
        """The ``dict`` of an object's attributes; or 0, its class's keys and its array of values."""
        known = self._instances_of(self.type_address(address))
        if not known.managed:
            offset = known.dict_offset
            return (read_u64(self._memory, address + offset) if offset > 0 else 0), 0, 0
        # dict and values are stored in two words before the GC header in 3.11, in one since 3.12; since 3.13 the
        # values follow the object
        namespace, values = read_u64(self._memory, address - self._managed_distance), 0
        if self._version < (3, 12):
            values = read_u64(self._memory, address - 32)
        elif self._version < (3, 13):
            if namespace & 1:  # _PyDictOrValues_SetValues stores the pointer less one
                namespace, values = 0, namespace + 1
        elif not namespace and known.inline_values:
            values = address + known.size
        if namespace or not values or not known.keys:
            return namespace, 0, 0
        return 0, known.keys, values + self._values_at

    @remembered
    def _instances_of(self, kind: int) -> _Instances:
        flags, dict_offset, size = self.read_members(
            "PyTypeObject", kind, "tp_flags", "tp_dictoffset", "tp_basicsize")
        managed = self._version >= (3, 11) and bool(flags & _MANAGED_DICT)
        keys = 0
        if managed and flags & _HEAPTYPE:
            keys = self.read_member("PyHeapTypeObject", kind, "ht_cached_keys")
        return _Instances(managed, dict_offset, size, bool(flags & _INLINE_VALUES), keys)

    @remembered
    def _position(self, keys: int, name: str) -> int | None:
        # remembered because all instances of a class share the keys
        return next((i for i, (key, _) in enumerate(self._slots(keys)) if self.key_name(key) == name), None)
