"""Bounded reading of Python objects from memory: str, bytes, int, dict, set, type names, instance attributes.

Whatever the memory holds, each function ends after a bounded number of reads and either returns a value or raises
`CorruptStructure` or `MemoryUnreadable`. An object is given by its address (``PyObject *``).
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Iterator
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
#: Most entries of a dict that are looked at.
MAX_ENTRIES = 1 << 16

#: Most attributes of one object, and items of one tuple, that are looked at.
MAX_ATTRIBUTES = 4096
#: Most entries of the table of a set, unless the caller says otherwise; it has at most five times as many as items.
_MAX_SET = 1 << 20
#: How many entries of the table of a set are read at a time.
_SET_CHUNK = 64
#: Most bytes, items or entries that an object is believed to have where only the first of them are read.
_MAX_SIZE = 1 << 40
#: Longest name that is looked for in a dict.
_MAX_KEY = 256
#: How many classes deep the bases of a type are followed.
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

    `size` is theirs in bytes; `keys` (``PyDictKeysObject *``) are the names of attributes that all of them share.
    """

    managed: bool
    dict_offset: int
    size: int
    inline_values: bool
    keys: int


class Objects:
    """Objects of one runtime of one target.

    :param layouts: of that runtime.
    """

    def __init__(self, memory: Memory, layouts: Layouts) -> None:
        self._memory = memory
        self._layouts = layouts
        self._version = layouts.version_tuple
        self._managed_distance = 8 if layouts.build.startswith("free-threaded") else 24
        # the array of values follows a small header since 3.13
        self._values_at = layouts["PyDictValues"].offset("values") if layouts.has("PyDictValues", "values") else 0
        self._unicode = layouts["PyASCIIObject"].reader("length", "state_kind", "state_compact", "state_ascii")
        self._ascii_size = layouts["PyASCIIObject"].size
        self._compact_size = layouts["PyCompactUnicodeObject"].size
        self._type_of = layouts["PyObject"].reader("ob_type")
        self._size_of = layouts["PyVarObject"].reader("ob_size")

    def type_address(self, address: int) -> int:
        """``ob_type`` of an object (``PyObject *``)."""
        return self._type_of(self._memory, address)[0]

    def type_name(self, address: int) -> str:
        """The ``tp_name`` of an object's type, such as ``code`` or ``_thread.lock``."""
        return self.name_of_type(self.type_address(address))

    def is_object(self, address: int) -> bool:
        """Whether an address holds an object: its type is an object too, whose own type makes types.

        :raises MemoryUnreadable: the address, or that of its type, is not mapped.
        """
        if address & 7:
            return False
        return self.makes_types(self.type_address(self.type_address(address)))

    def makes_types(self, kind: int) -> bool:
        """Whether a type (``PyTypeObject *``) is ``type`` or derived from it: its instances are types."""
        flags, = self._layouts["PyTypeObject"].reader("tp_flags")(self._memory, kind)
        return bool(flags & _TYPE_SUBCLASS)

    @remembered
    def name_of_type(self, kind: int) -> str:
        """The ``tp_name`` of a type (``PyTypeObject *``)."""
        return self._text(self._layouts["PyTypeObject"].reader("tp_name")(self._memory, kind)[0])

    def _text(self, address: int) -> str:
        return read_cstring(self._memory, address, 200).decode("utf-8", "replace")

    @remembered
    def c_function_name(self, definition: int) -> str:
        """The name of a function written in C (``PyMethodDef *``)."""
        return self._text(self._layouts["PyMethodDef"].reader("ml_name")(self._memory, definition)[0])

    def function_name(self, address: int) -> str | None:
        """The name of a function written in Python; None for any other object."""
        if self.type_name(address) != "function":
            return None
        name, = self._layouts["PyFunctionObject"].reader("func_name")(self._memory, address)
        return self.key_name(name)

    def bound_method(self, address: int) -> tuple[int, str | None]:
        """The object that a method is bound to (``PyObject *``) and the method's name; (0, None) for any other object.

        A function written in C is bound to its module.
        """
        kind = self.type_name(address)
        if kind in ("builtin_function_or_method", "builtin_method"):
            definition, owner = self._layouts["PyCFunctionObject"].reader("m_ml", "m_self")(self._memory, address)
            return owner, self.c_function_name(definition)
        if kind == "method":
            function, owner = self._layouts["PyMethodObject"].reader("im_func", "im_self")(self._memory, address)
            return owner, self.function_name(function)
        return 0, None

    def type_names(self, address: int) -> tuple[str, ...]:
        """The ``tp_name`` of an object's type and of the types that it is derived from, nearest first.

        Of several bases only the one that determines the layout is followed (``tp_base``).
        """
        return self._names_from(self.type_address(address))

    @remembered
    def _names_from(self, kind: int) -> tuple[str, ...]:
        base = self._layouts["PyTypeObject"].reader("tp_base")
        names: list[str] = []
        while kind and len(names) < _MAX_BASES:
            names.append(self.name_of_type(kind))
            kind, = base(self._memory, kind)
        return tuple(names)

    def string(self, address: int) -> str:
        """The text of a ``str`` (``PyUnicodeObject *``), cut after `MAX_STRING` characters.

        Source: CPython 3.13 Include/cpython/unicodeobject.h.

        :raises CorruptStructure: it is no string.
        """
        length, kind, data = self._characters(address)
        cut = min(length, MAX_STRING)
        text = self._memory.read(data, cut * kind).decode(_CODECS[kind], "replace")
        return text if cut == length else text + "..."

    def string_start(self, address: int, limit: int) -> tuple[str, int]:
        """The first `limit` characters of a ``str`` (``PyUnicodeObject *``), and how many it has; see `string`.

        Lone surrogates stay what they are.
        """
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
            return length, kind, address + (self._ascii_size if is_ascii else self._compact_size)
        return length, kind, self._layouts["PyUnicodeObject"].reader("data")(self._memory, address)[0]

    def size(self, address: int, most: int = _MAX_SIZE) -> int:
        """The number of items of a ``list`` or ``tuple``, or bytes of a ``bytes`` or ``bytearray`` (``PyVarObject *``).

        :raises CorruptStructure: it is negative, or more than `most`.
        """
        size, = self._size_of(self._memory, address)
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
        at, = self._layouts["PyByteArrayObject"].reader("ob_start")(self._memory, address)
        return self._memory.read(at, size) if size else b""

    def bytes(self, address: int) -> bytes:
        """The contents of a ``bytes`` (``PyBytesObject *``).

        :raises CorruptStructure: it has more than `MAX_BYTES`.
        """
        at = address + self._layouts["PyBytesObject"].offset("ob_sval")
        return self._memory.read(at, self.size(address, MAX_BYTES))

    def tuple_items(self, address: int) -> tuple[int, ...]:
        """The items of a ``tuple`` (``PyTupleObject *``).

        :raises CorruptStructure: it has more than `MAX_ATTRIBUTES`.
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
        size = min(self.size(address), limit)
        return self._words(self._layouts["PyListObject"].reader("ob_item")(self._memory, address)[0], size)

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
        value = sum(int.from_bytes(data[4 * i:4 * i + 4], "little") << _DIGIT * i for i in range(count))
        return -value if negative else value

    def integer_bits(self, address: int) -> int:
        """How many bits the digits of an ``int`` (``PyLongObject *``) can hold."""
        return _DIGIT * self._digits(address)[0]

    def _digits(self, address: int) -> tuple[int, bool]:
        known = self._layouts["PyLongObject"]
        if "lv_tag" in known:
            tag, = known.reader("lv_tag")(self._memory, address)
            return tag >> 3, tag & 3 == 2
        size, = self._size_of(self._memory, address)
        return abs(size), size < 0

    def dict_items(self, address: int) -> Iterator[tuple[int, int]]:
        """(key, value) addresses of a ``dict`` (``PyDictObject *``), at most `MAX_ENTRIES` of them.

        Source: CPython 3.13 Objects/dictobject.c, Include/internal/pycore_dict.h.
        """
        return (entry for entry in self.dict_slots(address) if all(entry))

    def set_items(self, address: int, most: int = _MAX_SET,
                  may_read: Callable[[], bool] = lambda: True) -> Iterator[int]:
        """The items of a ``set`` or ``frozenset`` (``PySetObject *``).

        Source: CPython 3.13 Objects/setobject.c: an unused entry has no key, a deleted one the hash -1.

        :param may_read: asked before each piece of the table; if it returns False the items end there.
        :raises CorruptStructure: the table has more than `most` entries, or a number that is no power of two.
        """
        mask, table = self._layouts["PySetObject"].reader("mask", "table")(self._memory, address)
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

    def dict_slots(self, address: int, limit: int | None = None) -> Iterator[tuple[int, int]]:
        """The first `limit` entries of a ``dict`` of any size, with 0 for the value in those that are not in use."""
        keys, values = self._layouts["PyDictObject"].reader("ma_keys", "ma_values")(self._memory, address)
        yield from self._filled(keys, values + self._values_at if values else 0, limit)

    def dict_size(self, address: int) -> int:
        """How many entries a ``dict`` (``PyDictObject *``) has."""
        return self._layouts["PyDictObject"].reader("ma_used")(self._memory, address)[0]

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
        """Places in an array of values, in the order in which they were filled, as far as that is recorded.

        Instances of a class share the names, since 3.14 in any order, and have an order of their own (CPython 3.14
        Include/internal/pycore_dict.h, get_insertion_order_array; 3.12 _PyDictValues_AddToInsertionOrder).
        """
        if self._layouts.has("PyDictValues", "capacity"):
            capacity, size = self._layouts["PyDictValues"].reader("capacity", "size")(
                self._memory, values - self._values_at)
            return tuple(self._memory.read(values + 8 * capacity, min(capacity, size)))
        if self._version >= (3, 11):
            # bytes in front of the array, from its start downwards: the length of all this, how many, which
            size, = self._memory.read(values - 2, 1)
            return tuple(reversed(self._memory.read(values - 2 - size, size)))
        return ()

    def _slots(self, keys: int, limit: int | None = None) -> Iterator[tuple[int, int]]:
        """(key, value) of each entry of a ``PyDictKeysObject``, unused ones and those of a split table too.

        With a limit only the first of them, however many there are.
        """
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
        """The value under a ``str`` key of a ``dict``, or None."""
        return next((value for key, value in self.dict_items(address) if self.key_name(key) == name), None)

    @remembered
    @if_unreadable(None)
    def key_name(self, key: int) -> str | None:
        """The text of a key of a dict (``PyObject *``); None if it is not a ``str``, or a very long one."""
        length, = self._layouts["PyASCIIObject"].reader("length")(self._memory, key)
        return self.string(key) if 0 <= length <= _MAX_KEY else None

    def attribute(self, address: int, name: str) -> int | None:
        """An instance attribute of an object of a class written in Python, or None.

        Source: CPython 3.13 Include/internal/pycore_object.h, Objects/dictobject.c; 3.12 and 3.11 the same files.
        """
        namespace, keys, values = self._attributes_at(address)
        if namespace:
            return self.dict_get(namespace, name)
        return self._split_value(keys, values, name) if keys else None

    def attributes(self, address: int) -> Iterator[tuple[str, int]]:
        """(name, value) of the instance attributes of an object, at most `MAX_ATTRIBUTES` of them; see `attribute`."""
        namespace, keys, values = self._attributes_at(address)
        if namespace:
            entries = self.dict_slots(namespace, MAX_ATTRIBUTES)
        elif keys:
            entries = self._filled(keys, values, MAX_ATTRIBUTES)
        else:
            return
        for key, value in entries:
            name = self.key_name(key) if key and value else None
            if name is not None:
                yield name, value

    def class_namespace(self, kind: int) -> int:
        """The ``dict`` of a class's own attributes (``PyDictObject *``, of a ``PyTypeObject *``)."""
        return self._layouts["PyTypeObject"].reader("tp_dict")(self._memory, kind)[0]

    def class_namespaces(self, address: int) -> Iterator[int]:
        """The namespaces of an object's class and its bases, as far as they are written in Python."""
        read = self._layouts["PyTypeObject"].reader("tp_flags", "tp_base", "tp_dict")
        kind = self.type_address(address)
        for _ in range(_MAX_BASES):
            flags, base, namespace = read(self._memory, kind)
            if not flags & _HEAPTYPE or not namespace:
                return
            yield namespace
            kind = base
            if not kind:
                return

    def basic_size(self, address: int) -> int:
        """``tp_basicsize`` of an object's type, in bytes."""
        return self._instances_of(self.type_address(address)).size

    def _attributes_at(self, address: int) -> tuple[int, int, int]:
        """Either the ``dict`` of an object's attributes, or its class's keys and its array of values."""
        known = self._instances_of(self.type_address(address))
        if not known.managed:
            offset = known.dict_offset
            return (read_u64(self._memory, address + offset) if offset > 0 else 0), 0, 0
        # where dict and inline values are kept: two words before the GC header in 3.11, one since 3.12; since 3.13
        # the values lie behind the object
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
        read = self._layouts["PyTypeObject"].reader("tp_flags", "tp_dictoffset", "tp_basicsize")
        flags, dict_offset, size = read(self._memory, kind)
        managed = self._version >= (3, 11) and bool(flags & _MANAGED_DICT)
        keys = 0
        if managed and flags & _HEAPTYPE:
            keys, = self._layouts["PyHeapTypeObject"].reader("ht_cached_keys")(self._memory, kind)
        return _Instances(managed, dict_offset, size, bool(flags & _INLINE_VALUES), keys)

    def _split_value(self, keys: int, values: int, name: str) -> int | None:
        position = self._position(keys, name)
        return read_u64(self._memory, values + 8 * position) or None if position is not None else None

    @remembered
    def _position(self, keys: int, name: str) -> int | None:
        # all instances of a class share the keys, so the place of a name is found once
        return next((i for i, (key, _) in enumerate(self._slots(keys)) if self.key_name(key) == name), None)
