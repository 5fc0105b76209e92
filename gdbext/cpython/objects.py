"""Bounded reading of Python objects from memory: str, bytes, int, dict, type names, instance attributes.

No code of the target runs. Whatever the memory holds, each function ends after a bounded number of reads and
either returns a value or raises `CorruptStructure` or `MemoryUnreadable`.
"""

from __future__ import annotations

from collections.abc import Iterator

from gdbext.errors import CorruptStructure, GdbextError
from gdbext.layout.table import Layouts
from gdbext.target.cache import read_cstring, read_u64
from gdbext.target.protocol import Memory

#: Longest string that is read, in characters; names and file names are far shorter.
MAX_STRING = 4096
#: Longest line table that is read, in bytes.
MAX_BYTES = 1 << 20
#: Most entries of a dict that are looked at.
MAX_ENTRIES = 1 << 16

#: Longest name that is looked for in a dict.
_MAX_KEY = 256

_CODECS = {1: "latin-1", 2: "utf-16-le", 4: "utf-32-le"}
_MANAGED_DICT = 1 << 4  # Py_TPFLAGS_MANAGED_DICT, CPython 3.11 and later
_INLINE_VALUES = 1 << 2  # Py_TPFLAGS_INLINE_VALUES, CPython 3.13 and later
_HEAPTYPE = 1 << 9


class Objects:
    """Objects of one runtime of one target.

    :param layouts: of that runtime.
    """

    def __init__(self, memory: Memory, layouts: Layouts) -> None:
        self._memory = memory
        self._layouts = layouts
        self._type_names: dict[int, str] = {}
        self._key_names: dict[int, str | None] = {}
        self._positions: dict[tuple[int, str], int] = {}
        self._unicode = layouts["PyASCIIObject"].reader("length", "state_kind", "state_compact", "state_ascii")
        self._ascii_size = layouts["PyASCIIObject"].size
        self._compact_size = layouts["PyCompactUnicodeObject"].size
        self._type_of = layouts["PyObject"].reader("ob_type")
        self._size_of = layouts["PyVarObject"].reader("ob_size")

    def type_address(self, address: int) -> int:
        """``ob_type`` of an object (``PyObject *``)."""
        return self._type_of(self._memory, address)[0]

    def type_name(self, address: int) -> str:
        """The ``tp_name`` of an object's type, such as ``code`` or ``_thread.lock``.

        :param address: ``PyObject *``.
        """
        kind = self.type_address(address)
        name = self._type_names.get(kind)
        if name is None:
            pointer, = self._layouts["PyTypeObject"].reader("tp_name")(self._memory, kind)
            name = self._type_names[kind] = read_cstring(self._memory, pointer, 200).decode("utf-8", "replace")
        return name

    def string(self, address: int) -> str:
        """The text of a ``str`` (``PyUnicodeObject *``), cut after `MAX_STRING` characters.

        Source: CPython 3.13 Include/cpython/unicodeobject.h.

        :raises CorruptStructure: it is no string.
        """
        length, kind, compact, is_ascii = self._unicode(self._memory, address)
        if kind not in _CODECS or length < 0 or (is_ascii and kind != 1):
            raise CorruptStructure(address, "not a str")
        cut = min(length, MAX_STRING)
        if compact:
            data = address + (self._ascii_size if is_ascii else self._compact_size)
        else:
            data, = self._layouts["PyUnicodeObject"].reader("data")(self._memory, address)
        text = self._memory.read(data, cut * kind).decode(_CODECS[kind], "replace")
        return text if cut == length else text + "..."

    def bytes(self, address: int) -> bytes:
        """The contents of a ``bytes`` (``PyBytesObject *``).

        :raises CorruptStructure: its size is negative or above `MAX_BYTES`.
        """
        size, = self._size_of(self._memory, address)
        if not 0 <= size <= MAX_BYTES:
            raise CorruptStructure(address, f"a bytes object of {size} bytes")
        return self._memory.read(address + self._layouts["PyBytesObject"].offset("ob_sval"), size)

    def integer(self, address: int) -> int:
        """The value of an ``int`` (``PyLongObject *``) of at most 120 bits.

        Source: CPython 3.13 Include/cpython/longintrepr.h; ``lv_tag`` since 3.12, before that a signed ``ob_size``.
        """
        known = self._layouts["PyLongObject"]
        if "lv_tag" in known:
            tag, = known.reader("lv_tag")(self._memory, address)
            count, negative = tag >> 3, tag & 3 == 2
        else:
            size, = self._size_of(self._memory, address)
            count, negative = abs(size), size < 0
        if count > 4:
            raise CorruptStructure(address, f"an int of {count} digits")
        data = self._memory.read(address + known.offset("ob_digit"), 4 * count)
        value = sum(int.from_bytes(data[4 * i:4 * i + 4], "little") << 30 * i for i in range(count))
        return -value if negative else value

    def dict_items(self, address: int) -> Iterator[tuple[int, int]]:
        """(key, value) addresses of a ``dict`` (``PyDictObject *``), at most `MAX_ENTRIES` of them.

        Source: CPython 3.13 Objects/dictobject.c, Include/internal/pycore_dict.h.
        """
        keys, values = self._layouts["PyDictObject"].reader("ma_keys", "ma_values")(self._memory, address)
        yield from self._entries(keys, self._split_values(values) if values else 0)

    def _split_values(self, values: int) -> int:
        # the array of values lies behind a small header since 3.13, before that at once
        if self._layouts.has("PyDictValues", "values"):
            return values + self._layouts["PyDictValues"].offset("values")
        return values

    def _entries(self, keys: int, values: int) -> Iterator[tuple[int, int]]:
        for i, (key, value) in enumerate(self._slots(keys)):
            if values:
                value = read_u64(self._memory, values + 8 * i)
            if key and value:
                yield key, value

    def _slots(self, keys: int) -> Iterator[tuple[int, int]]:
        """(key, value) of each entry of a ``PyDictKeysObject``, unused ones and those of a split table too."""
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
        if not 0 <= count <= MAX_ENTRIES:
            raise CorruptStructure(keys, f"a dict of {count} entries")
        entry = self._layouts["PyDictUnicodeEntry" if unicode_keys else "PyDictKeyEntry"]
        read = entry.reader("me_key", "me_value")
        for i in range(count):
            key, value = read(self._memory, entries + i * entry.size)
            yield key, value

    def dict_get(self, address: int, name: str) -> int | None:
        """The value under a ``str`` key of a ``dict``, or None."""
        return next((value for key, value in self.dict_items(address) if self._key_is(key, name)), None)

    def _key_is(self, key: int, name: str) -> bool:
        # keys are interned, so the same few strings are asked for again and again
        known = self._key_names.get(key)
        if known is None and key not in self._key_names:
            try:
                length, = self._layouts["PyASCIIObject"].reader("length")(self._memory, key)
                known = self.string(key) if 0 <= length <= _MAX_KEY else None
            except GdbextError:
                known = None
            self._key_names[key] = known
        return known == name

    def attribute(self, address: int, name: str) -> int | None:
        """An instance attribute of an object of a class written in Python, or None.

        Source: CPython 3.13 Include/internal/pycore_object.h, Objects/dictobject.c; 3.12 and 3.11 the same files.

        :param address: ``PyObject *``.
        """
        kind = self.type_address(address)
        known = self._layouts["PyTypeObject"]
        flags, dict_offset = known.reader("tp_flags", "tp_dictoffset")(self._memory, kind)
        if self._layouts.version_tuple >= (3, 11) and flags & _MANAGED_DICT:
            return self._managed_attribute(address, kind, flags, name)
        if dict_offset > 0:
            namespace = read_u64(self._memory, address + dict_offset)
            return self.dict_get(namespace, name) if namespace else None
        return None

    def _managed_attribute(self, address: int, kind: int, flags: int, name: str) -> int | None:
        # where dict and inline values are kept: two words before the GC header in 3.11, one since 3.12; since 3.13
        # the values lie behind the object
        version = self._layouts.version_tuple
        free_threaded = self._layouts.build.startswith("free-threaded")
        word = read_u64(self._memory, address - (8 if free_threaded else 24))
        namespace, values = word, 0
        if version < (3, 12):
            values = read_u64(self._memory, address - 32)
        elif version < (3, 13):
            if word & 1:  # _PyDictOrValues_SetValues stores the pointer less one
                namespace, values = 0, word + 1
        elif not word and flags & _INLINE_VALUES:
            basic_size, = self._layouts["PyTypeObject"].reader("tp_basicsize")(self._memory, kind)
            values = address + basic_size
        if namespace:
            return self.dict_get(namespace, name)
        if not values or not flags & _HEAPTYPE:
            return None
        keys, = self._layouts["PyHeapTypeObject"].reader("ht_cached_keys")(self._memory, kind)
        return self._split_value(keys, self._split_values(values), name) if keys else None

    def _split_value(self, keys: int, values: int, name: str) -> int | None:
        # all instances of a class share the keys, so the place of a name is found once
        position = self._positions.get((keys, name))
        if position is None:
            position = next((i for i, (key, _) in enumerate(self._slots(keys)) if self._key_is(key, name)), -1)
            self._positions[(keys, name)] = position
        return read_u64(self._memory, values + 8 * position) or None if position >= 0 else None
