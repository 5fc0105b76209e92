"""Python values and local variables as text in the form of `repr`: a method for each builtin type, so it is long.

Builtin types, their subclasses, instances with their `__dict__` and `__slots__`, and numpy arrays. Each value ends
after a bounded number of reads, also in damaged memory; unreadable parts are shown as such.
"""

from __future__ import annotations

import itertools
import math
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from gdbext.cpython.frames import FrameReader, RawFrame
from gdbext.cpython.objects import Objects
from gdbext.errors import CorruptStructure, GdbextError, if_unreadable
from gdbext.inferior.cache import read_u64
from gdbext.inferior.protocol import Memory
from gdbext.layout.select import numpy_layouts
from gdbext.layout.table import Layouts
from gdbext.record import record
from gdbext.remembered import remembered

#: The text of a value whose memory is damaged or missing.
UNREADABLE = "<unreadable>"
#: Largest number of variables of one frame that are shown.
MAX_VARIABLES = 100

#: Largest int whose value is computed, in bits; and the largest number of decimal digits that every Python converts to
#: text (``sys.set_int_max_str_digits``).
_MAX_BITS = 1 << 15
_MAX_DIGITS = 4000
#: Largest number of base classes of one class, and of entries in all their namespaces.
_MAX_CLASSES = 64
_MAX_CLASS_ENTRIES = 4096
#: Longest name of a class, function or module that is read, in characters.
_MAX_NAME = 200
#: Upper limit of `Limits.depth`: each nested object uses some frames of the debugger's own Python stack.
_MAX_DEPTH = 50
#: Longest chain of cells that is followed.
_MAX_CELLS = 8
#: Largest table of a set, in entries; `Limits.reads` bounds what is read of it.
_MAX_TABLE = 1 << 62
#: NPY_MAXDIMS, and the largest alignment of an element in bytes.
_MAX_DIMENSIONS = 64
_MAX_ALIGNMENT = 64

_HEAPTYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE
_OBJECT_MEMBERS = (6, 16)  # T_OBJECT and T_OBJECT_EX of structmember.h, since 3.12 with other names in descrobject.h
_CONSTANTS = {"NoneType": "None", "ellipsis": "Ellipsis", "NotImplementedType": "NotImplemented"}
_ENUM_CLASSES = ("EnumMeta", "EnumType")  # the second since 3.11
_WEAK_REFERENCES = ("weakref", "weakref.ReferenceType")  # the second since 3.12
_WEAK_PROXIES = ("weakproxy", "weakcallableproxy", "weakref.ProxyType", "weakref.CallableProxyType")

T = TypeVar("T")


@record
class Limits:
    """How much of one value is shown.

    `depth` limits the nesting of containers and objects, `items` the items of one container, `reads` the objects and
    entries that are read. After `characters` characters no further part begins, but open brackets are closed.
    """

    depth: int = 3
    items: int = 10
    characters: int = 200
    reads: int = 4096


DEFAULT_LIMITS = Limits()


@record
class _Kind:
    """A type: its ``tp_name``, whether it was made at run time, and its nearest builtin base; `exact`: itself."""

    address: int
    name: str
    heap: bool
    builtin: str = ""
    exact: bool = False

    @property
    def short_name(self) -> str:
        return self.name.rpartition(".")[2]


@record
class _Class:
    """Facts about the instances of a class, from its namespace and those of its bases.

    `slots` are names from `__slots__` and the offsets of their values in bytes. `fields` are the fields of a dataclass,
    `names` those of a named tuple, `members` (``PyDictObject *``) the members of an enumeration.
    """

    slots: tuple[tuple[str, int], ...] = ()
    fields: tuple[str, ...] | None = None
    names: tuple[str, ...] | None = None
    members: int = 0


class ValueReader:
    """Formats values of one runtime of one target; each type is decoded once."""

    def __init__(self, memory: Memory, layouts: Layouts, objects: Objects) -> None:
        self._memory = memory
        self._layouts = layouts
        self._objects = objects
        self._classes: dict[int, _Class] = {}

    def text(self, address: int, limits: Limits = DEFAULT_LIMITS) -> str:
        """Format a value like Python's `repr`, without running the target's code.

        Objects of classes with a `__repr__` of their own are shown by their attributes, those of other types by type
        and address. The text is not escaped: a name may contain any character.

        :param address: ``PyObject *``.
        :raises GdbextError: the value itself cannot be read. Its parts may be `UNREADABLE`.
        """
        return _Writer(self._memory, self._layouts, self._objects, self, limits).value(address)

    def type_name(self, address: int) -> str:
        """The ``tp_name`` of a value's type."""
        return self._objects.type_name(address)

    @remembered
    def kind(self, address: int) -> _Kind:
        """Decode a type (``PyTypeObject *``)."""
        flags, order = self._objects.read_members("PyTypeObject", address, "tp_flags", "tp_mro")
        name, made = self._objects.name_of_type(address), bool(flags & _HEAPTYPE)
        chain = list(self._objects.base_types(address))
        if order and not made:
            # numpy.float64 is a float, but its `tp_base` is another type
            chain += self._objects.tuple_start(order, _MAX_CLASSES)
        for at in chain:
            # a class written in Python may have the name of a builtin type
            if not self._objects.read_member("PyTypeObject", at, "tp_flags") & _HEAPTYPE:
                known = self._objects.name_of_type(at)
                if known in _BUILTIN:
                    return _Kind(address, name, made, known, at == address)
        return _Kind(address, name, made)

    def class_of(self, kind: _Kind) -> _Class:
        """Facts about the instances of a type; nothing for a type that was not made at run time."""
        if not kind.heap:
            return _Class()
        if kind.address not in self._classes:
            self._classes[kind.address] = _Class()  # in damaged memory a class may contain itself
            try:
                self._classes[kind.address] = self._read_class(kind.address)
            except GdbextError:
                del self._classes[kind.address]
                raise
        return self._classes[kind.address]

    def attributes(self, address: int) -> Iterator[tuple[str, int]]:
        """(name, value) of the attributes of an object in `__slots__` and `__dict__`; see `Objects.attributes`."""
        kind = self.kind(self._objects.type_address(address))
        if self._has_slots(kind.address):
            yield from self.in_slots(address, kind)
        yield from self._objects.attributes(address)

    def in_slots(self, address: int, kind: _Kind) -> Iterator[tuple[str, int]]:
        """(name, value) of the readable attributes of an object in `__slots__`."""
        for name, offset in self.class_of(kind).slots:
            try:
                value = read_u64(self._memory, address + offset)
            except GdbextError:
                continue
            if value:
                yield name, value

    @remembered
    def _has_slots(self, kind: int) -> bool:
        """Whether a class written in Python or one of its bases has `__slots__`: their number is the type's size.

        To find their names, all attributes of all these classes have to be read.
        """
        return any(self._objects.read_member("PyVarObject", base, "ob_size") for base in self._objects.base_types(kind))

    def _read_class(self, address: int) -> _Class:
        slots: dict[str, int] = {}
        special = dict.fromkeys(("__dataclass_fields__", "_fields", "_member_map_"), 0)
        for name, value in self._class_attributes(address):
            if name in special:
                special[name] = value
                continue
            try:
                if self._objects.type_name(value) == "member_descriptor" and not name.startswith("__"):
                    member = self._objects.read_member("PyMemberDescrObject", value, "d_member")
                    kind, offset = self._objects.read_members("PyMemberDef", member, "type", "offset")
                    if kind in _OBJECT_MEMBERS and offset > 0:
                        slots[name] = offset
            except GdbextError:
                continue
        fields, names, members = special.values()
        if members and not any(name in _ENUM_CLASSES for name in self._objects.type_names(address)):
            members = 0
        return _Class(tuple(slots.items()), self._dataclass_fields(fields) if fields else None,
                      self._field_names(names) if names else None, members)

    def _class_attributes(self, address: int) -> Iterator[tuple[str, int]]:
        """(name, value) in the readable namespaces of a class and its bases, those of the bases first."""
        order = self._objects.read_member("PyTypeObject", address, "tp_mro")
        left = _MAX_CLASS_ENTRIES
        for kind in reversed(self._objects.tuple_start(order, _MAX_CLASSES) if order else (address,)):
            try:
                flags, namespace = self._objects.read_members("PyTypeObject", kind, "tp_flags", "tp_dict")
                if not flags & _HEAPTYPE or not namespace:
                    continue  # since 3.12 builtin types have their namespaces elsewhere
                for key, value in self._objects.dict_slots(namespace, left):
                    left -= 1
                    name = self._objects.key_name(key) if key and value else None
                    if name is not None:
                        yield name, value
            except GdbextError:
                continue

    @if_unreadable(None)
    def _field_names(self, address: int) -> tuple[str, ...] | None:
        """The names in the ``_fields`` of a named tuple (``PyTupleObject *``)."""
        if self._objects.type_name(address) != "tuple":
            return None
        return tuple([self._objects.key_name(item) or "?" for item in self._objects.tuple_start(address, _MAX_CLASSES)])

    @if_unreadable(None)
    def _dataclass_fields(self, address: int) -> tuple[str, ...] | None:
        """The names of the fields of a dataclass (``PyDictObject *``) that its `__repr__` shows."""
        if self._objects.type_name(address) != "dict":
            return None
        fields = self._objects.named_items(address, _MAX_CLASS_ENTRIES)
        return tuple([name for name, field in fields if self._is_shown(field)])

    def _is_shown(self, field: int) -> bool:
        kind = self.kind(self._objects.type_address(field))
        for name, offset in self.class_of(kind).slots if kind.name == "Field" else ():
            if name == "repr":
                shown = read_u64(self._memory, field + offset)
                return self._objects.type_name(shown) != "bool" or self._objects.integer(shown) != 0
        return True


class _Writer:
    """Formats one value: counts the remaining characters and reads, and knows the objects it is inside of."""

    def __init__(self, memory: Memory, layouts: Layouts, objects: Objects, reader: ValueReader, limits: Limits) -> None:
        self._memory = memory
        self._layouts = layouts
        self._objects = objects
        self._reader = reader
        self._limits = replace(limits, depth=min(limits.depth, _MAX_DEPTH))
        self._characters = limits.characters
        self._reads = limits.reads
        self._open: set[int] = set()

    def value(self, address: int) -> str:
        self._reads -= 1
        kind = self._reader.kind(self._objects.type_address(address))
        for _ in range(_MAX_CELLS):
            if kind.builtin != "cell":
                break
            contents = self._objects.read_member("PyCellObject", address, "ob_ref")
            if not contents:
                return self._leaf(f"<empty cell at {address:#x}>")
            address, kind = contents, self._reader.kind(self._objects.type_address(contents))
        if kind.heap:
            known = self._reader.class_of(kind)
            if known.members:
                return self._enumeration(address, kind, known)
            if known.fields is not None:
                return self._dataclass(address, kind, known.fields)
            if not kind.builtin:
                return self._instance(address, kind)
        if not kind.builtin:
            return self._leaf(f"<{kind.name} at {address:#x}>")
        return _BUILTIN[kind.builtin](self, address, kind)

    def _part(self, address: int) -> str:
        try:
            return self.value(address)
        except GdbextError:
            return self._leaf(UNREADABLE)

    def _leaf(self, text: str) -> str:
        self._characters -= len(text)
        return text

    def _in_subclass(self, kind: _Kind, text: str) -> str:
        return text if kind.exact else f"{kind.short_name}({text})"

    def _joined(self, items: Iterable[T], show: Callable[[T], str], count: int | None = None) -> str:
        """The items with commas between them, up to the limits. `count` is their number, None if it is not known."""
        parts: list[str] = []
        for item in items:
            if len(parts) >= self._limits.items or self._characters <= 0 or self._reads <= 0:
                count = len(parts) + 1
                break
            parts.append(show(item))
            self._characters -= 2
        if count is not None and count > len(parts):
            parts.append("...")
        return ", ".join(parts)

    def _nested(self, address: int, show: Callable[[], str], otherwise: str) -> str:
        """The text of an object that contains others; `otherwise` if it is inside itself, or nested too deep."""
        if address in self._open or len(self._open) >= self._limits.depth:
            return self._leaf(otherwise)
        self._open.add(address)
        try:
            return show()
        finally:
            self._open.discard(address)

    # -- numbers and strings ---------------------------------------------------------------------------------

    def _constant(self, address: int, kind: _Kind) -> str:
        return self._leaf(_CONSTANTS[kind.builtin])

    def _bool(self, address: int, kind: _Kind) -> str:
        return self._leaf(str(self._objects.integer(address) != 0))

    def _int(self, address: int, kind: _Kind) -> str:
        bits = self._objects.integer_bits(address)
        if bits > _MAX_BITS:
            return self._leaf(f"<{kind.short_name} of about {int(bits * math.log10(2))} digits>")
        value = self._objects.integer(address, _MAX_BITS)
        digits = int(abs(value).bit_length() * math.log10(2))
        digits += abs(value) >= 10 ** digits
        if digits > min(self._limits.characters, _MAX_DIGITS):
            return self._leaf(f"<{kind.short_name} of {digits} digits>")
        return self._leaf(self._in_subclass(kind, str(value)))

    def _float(self, address: int, kind: _Kind) -> str:
        value, = self._doubles(self._objects.read_members("PyFloatObject", address, "ob_fval"))
        return self._leaf(self._in_subclass(kind, repr(value)))

    def _complex(self, address: int, kind: _Kind) -> str:
        real, imag = self._doubles(self._objects.read_members("PyComplexObject", address, "real", "imag"))
        return self._leaf(self._in_subclass(kind, repr(complex(real, imag))))

    @staticmethod
    def _doubles(words: Sequence[int]) -> Sequence[float]:
        return struct.unpack(f"<{len(words)}d", struct.pack(f"<{len(words)}Q", *words))

    def _str(self, address: int, kind: _Kind) -> str:
        text, length = self._objects.string_start(address, max(self._characters, 1))
        return self._leaf(self._in_subclass(kind, self._quoted(text, length)))

    def _bytes(self, address: int, kind: _Kind) -> str:
        data = self._objects.bytes_start(address, max(self._characters, 1))
        return self._leaf(self._in_subclass(kind, self._quoted(data, self._objects.size(address))))

    def _bytearray(self, address: int, kind: _Kind) -> str:
        data = self._objects.bytearray_start(address, max(self._characters, 1))
        return self._leaf(f"{kind.short_name}({self._quoted(data, self._objects.size(address))})")

    def _quoted(self, start: str | bytes, length: int) -> str:
        """The beginning of a string of `length` characters, cut to the remaining room."""
        room = max(self._characters, 1)
        text = repr(start)
        while len(text) > room + len("b''") and len(start) > 1:
            start = start[:max(len(start) * room // len(text), 1)]
            text = repr(start)
        # the dots follow the closing quote, where text from the program cannot be
        return text if len(start) == length else f"{text}..."

    def _name(self, address: int) -> str:
        text, length = self._objects.string_start(address, _MAX_NAME)
        return text if len(text) == length else f"{text}..."

    # -- containers ------------------------------------------------------------------------------------------

    def _list(self, address: int, kind: _Kind) -> str:
        items = self._objects.list_start(address, self._limits.items + 1)
        if not items:
            return self._in_subclass(kind, self._leaf("[]"))
        return self._in_subclass(kind, self._nested(address, lambda: f"[{self._joined(items, self._item)}]", "[...]"))

    def _item(self, item: int) -> str:
        return self._part(item) if item else self._leaf("<NULL>")

    def _tuple(self, address: int, kind: _Kind) -> str:
        items = self._objects.tuple_start(address, self._limits.items + 1)
        names = self._reader.class_of(kind).names
        if names is not None and len(names) == self._objects.size(address):
            return self._call(kind, address, lambda: self._named_items(zip(names, items)))

        def show() -> str:
            text = self._joined(items, self._item)
            return f"({text},)" if len(items) == 1 else f"({text})"

        return self._in_subclass(kind, self._nested(address, show, "(...)") if items else self._leaf("()"))

    def _set(self, address: int, kind: _Kind) -> str:
        size = self._objects.read_member("PySetObject", address, "used")
        items = self._objects.set_items(address, _MAX_TABLE, self._spend)
        return self._in_braces(address, kind, size, "set", lambda: self._joined(items, self._part, size))

    def _spend(self) -> bool:
        self._reads -= 1
        return self._reads >= 0

    def _dict(self, address: int, kind: _Kind) -> str:
        size = self._objects.dict_size(address)
        return self._in_braces(address, kind, size, "dict", lambda: self._joined(
            self._entries(address), self._pair, size))

    def _in_braces(self, address: int, kind: _Kind, size: int, plain: str, show: Callable[[], str]) -> str:
        """A set or dict; `plain` is the builtin type whose name is not shown."""
        is_plain = kind.exact and kind.builtin == plain
        if not size:
            return self._leaf("{}" if is_plain and plain == "dict" else f"{kind.short_name}()")
        text = self._nested(address, lambda: f"{{{show()}}}", "{...}")
        return text if is_plain else f"{kind.short_name}({text})"

    def _entries(self, address: int) -> Iterator[tuple[int, int]]:
        for key, value in self._objects.dict_slots(address, self._reads):
            self._reads -= 1
            if key and value:
                yield key, value

    def _pair(self, pair: tuple[int, int]) -> str:
        key = self._part(pair[0])
        self._characters -= 2
        return f"{key}: {self._part(pair[1])}"

    def _slice(self, address: int, kind: _Kind) -> str:
        parts = self._objects.read_members("PySliceObject", address, "start", "stop", "step")
        return self._nested(address, lambda: f"slice({self._joined(parts, self._part)})", "slice(...)")

    def _range(self, address: int, kind: _Kind) -> str:
        numbers = self._objects.read_members("rangeobject", address, "start", "stop", "step")

        def show() -> str:
            parts = [self._part(number) for number in numbers]
            return f"range({', '.join(parts[:2] if parts[2] == '1' else parts)})"

        return self._nested(address, show, "range(...)")

    def _cell(self, address: int, kind: _Kind) -> str:
        return self._leaf(f"<cell at {address:#x}>")  # the last of a long chain

    # -- instances -------------------------------------------------------------------------------------------

    def _instance(self, address: int, kind: _Kind) -> str:
        bare = f"<{kind.name} at {address:#x}>"
        if address in self._open:
            return self._leaf(f"<... at {address:#x}>")
        attributes = self._attributes(address, kind)
        first = next(attributes, None)
        if first is None:
            return self._leaf(bare)

        def show() -> str:
            self._characters -= len(bare)
            return f"{bare[:-1]}: {self._named_items(itertools.chain([first], attributes))}>"

        return self._nested(address, show, bare)

    def _named_items(self, pairs: Iterable[tuple[str, int]]) -> str:
        def show(pair: tuple[str, int]) -> str:
            self._characters -= len(pair[0]) + 1
            return f"{pair[0]}={self._item(pair[1])}"

        return self._joined(pairs, show)

    def _attributes(self, address: int, kind: _Kind) -> Iterator[tuple[str, int]]:
        """(name, value) of the readable attributes of an object in `__slots__` and `__dict__`."""
        yield from self._reader.in_slots(address, kind)
        try:
            for pair in self._objects.attributes(address):
                self._reads -= 1
                yield pair
        except GdbextError:
            return

    def _dataclass(self, address: int, kind: _Kind, fields: tuple[str, ...]) -> str:
        if address in self._open:
            return self._leaf(f"<... at {address:#x}>")
        known = dict(self._attributes(address, kind))
        return self._call(kind, address, lambda: self._named_items(
            [(name, known[name]) for name in fields if name in known]))

    def _call(self, kind: _Kind, address: int, arguments: Callable[[], str]) -> str:
        """An object in the form of the call that makes an equal one."""
        def show() -> str:
            self._characters -= len(kind.short_name) + 2
            return f"{kind.short_name}({arguments()})"

        return self._nested(address, show, f"{kind.short_name}(...)")

    def _exception(self, address: int, kind: _Kind) -> str:
        arguments = self._objects.read_member("PyBaseExceptionObject", address, "args")
        if address in self._open:
            return self._leaf(f"<... at {address:#x}>")
        return self._call(kind, address, lambda: self._joined(
            self._objects.tuple_start(arguments, self._limits.items + 1) if arguments else (), self._item))

    def _enumeration(self, address: int, kind: _Kind, known: _Class) -> str:
        name = next((self._objects.key_name(key) or "?"
                     for key, value in self._objects.dict_slots(known.members, _MAX_CLASS_ENTRIES)
                     if key and value == address), None)
        label = f"{kind.short_name}.{name}" if name is not None else kind.short_name
        self._characters -= len(label) + 4
        if kind.builtin in ("int", "str", "float", "bytes", "tuple"):
            plain = _Kind(kind.address, kind.builtin, False, kind.builtin, True)
            return f"<{label}: {_BUILTIN[kind.builtin](self, address, plain)}>"
        value = next((value for attribute, value in self._attributes(address, kind) if attribute == "_value_"), 0)
        shown = self._nested(address, lambda: self._part(value), "...") if value else "?"
        return f"<{label}: {shown}>"

    # -- code ------------------------------------------------------------------------------------------------

    def _function(self, address: int, kind: _Kind) -> str:
        return self._leaf(f"<function {self._qualified_name(address)} at {address:#x}>")

    def _qualified_name(self, function: int) -> str:
        return self._name(self._objects.read_member("PyFunctionObject", function, "func_qualname"))

    def _short(self, address: int) -> str:
        return f"{self._objects.type_name(address)} at {address:#x}"

    def _method(self, address: int, kind: _Kind) -> str:
        function, owner = self._objects.read_members("PyMethodObject", address, "im_func", "im_self")
        name = self._objects.type_name(function)
        if name == "function":
            name = self._qualified_name(function)
        return self._leaf(f"<bound method {name} of <{self._short(owner)}>>")

    def _builtin_function(self, address: int, kind: _Kind) -> str:
        definition, owner = self._objects.read_members("PyCFunctionObject", address, "m_ml", "m_self")
        name = self._objects.c_function_name(definition)
        if not owner or self._objects.type_name(owner) == "module":
            return self._leaf(f"<built-in function {name}>")
        return self._leaf(f"<built-in method {name} of {self._short(owner)}>")

    def _method_descriptor(self, address: int, kind: _Kind) -> str:
        owner, name = self._objects.read_members("PyMethodDescrObject", address, "d_type", "d_name")
        return self._leaf(f"<method '{self._name(name)}' of '{self._objects.name_of_type(owner)}' objects>")

    def _class(self, address: int, kind: _Kind) -> str:
        known = self._reader.kind(address)
        if not known.heap:
            return self._leaf(f"<class '{known.name}'>")
        qualified_name = self._objects.read_member("PyHeapTypeObject", address, "ht_qualname")
        name = self._name(qualified_name) if qualified_name else known.short_name
        module = self._name_in(self._objects.class_namespace(address), "__module__")
        return self._leaf(f"<class '{name}'>" if module in (None, "builtins") else f"<class '{module}.{name}'>")

    def _module(self, address: int, kind: _Kind) -> str:
        name = self._name_in(self._objects.read_member("PyModuleObject", address, "md_dict"), "__name__")
        return self._leaf(f"<module at {address:#x}>" if name is None else f"<module '{name}'>")

    def _name_in(self, namespace: int, wanted: str) -> str | None:
        """The ``str`` in a namespace (``PyDictObject *``) under a name, or None."""
        items = self._objects.named_items(namespace, _MAX_CLASS_ENTRIES) if namespace else ()
        value = next((value for name, value in items if name == wanted), 0)
        return self._name(value) if value and self._objects.type_name(value) == "str" else None

    def _weak_reference(self, address: int, kind: _Kind) -> str:
        target = self._objects.read_member("PyWeakReference", address, "wr_object")
        name = "weakproxy" if kind.builtin in _WEAK_PROXIES else "weakref"
        referent = self._objects.type_name(target)
        where = "dead" if referent == "NoneType" else f"to '{referent}' at {target:#x}"
        return self._leaf(f"<{name} at {address:#x}; {where}>")

    # -- numpy -----------------------------------------------------------------------------------------------

    def _array(self, address: int, kind: _Kind) -> str:
        try:
            return self._leaf(f"<{kind.name} {self._shape(address)} at {address:#x}>")
        except GdbextError:
            return self._leaf(f"<{kind.name} at {address:#x}>")

    def _shape(self, address: int) -> str:
        """Element type and shape of a numpy array (``PyArrayObject *``).

        Source: NumPy 2.4 numpy/_core/include/numpy/ndarraytypes.h.

        :raises CorruptStructure: the object is not an array.
        """
        known = numpy_layouts(self._layouts.machine)
        array = known["PyArrayObject"]
        # the table is made from a build with a GIL; in other builds only the header of every object is larger
        grown = self._layouts["PyObject"].size - array["ob_base"].size
        dimensions, shape, descriptor = array.reader("nd", "dimensions", "descr")(self._memory, address + grown)
        if not 0 <= dimensions <= _MAX_DIMENSIONS:
            raise CorruptStructure(address, f"an array of {dimensions} dimensions")
        sizes = struct.unpack(f"<{dimensions}q", self._memory.read(shape, 8 * dimensions)) if dimensions else ()
        if any(size < 0 for size in sizes):
            raise CorruptStructure(address, "an array of impossible shape")
        scalar, = known["PyArray_Descr"].reader("typeobj")(self._memory, descriptor + grown)
        name = self._objects.name_of_type(scalar).rpartition(".")[2].rstrip("_")
        if name in ("str", "bytes", "void"):
            # numpy appends the number of bits of an element
            name += str(8 * self._element_size(known, descriptor + grown))
        return f"{name} ({', '.join(map(str, sizes))}{',' if dimensions == 1 else ''})"

    def _element_size(self, known: Layouts, descriptor: int) -> int:
        # NumPy 1 and 2 have size and alignment in different places. The alignment is small: in its place the other one
        # has a pointer, or flags of which few are in use.
        for name in ("PyArray_Descr", "PyArray_DescrProto"):
            size, alignment = known[name].reader("elsize", "alignment")(self._memory, descriptor)
            if 0 < alignment <= _MAX_ALIGNMENT and not alignment & (alignment - 1) and size >= 0:
                return size
        raise CorruptStructure(descriptor, "an array's elements have no size")


_Show = Callable[[_Writer, int, _Kind], str]
#: The method that formats objects of a builtin type and of types derived from it, by the ``tp_name`` of the former.
_BUILTIN: dict[str, _Show] = {
    **dict.fromkeys(_CONSTANTS, _Writer._constant),
    "bool": _Writer._bool, "int": _Writer._int, "float": _Writer._float, "complex": _Writer._complex,
    "str": _Writer._str, "bytes": _Writer._bytes, "bytearray": _Writer._bytearray,
    "list": _Writer._list, "tuple": _Writer._tuple, "set": _Writer._set, "frozenset": _Writer._set,
    "dict": _Writer._dict, "frozendict": _Writer._dict, "slice": _Writer._slice, "range": _Writer._range,
    "BaseException": _Writer._exception, "function": _Writer._function, "method": _Writer._method,
    "builtin_function_or_method": _Writer._builtin_function, "method_descriptor": _Writer._method_descriptor,
    "type": _Writer._class, "module": _Writer._module, "cell": _Writer._cell, "numpy.ndarray": _Writer._array,
    **dict.fromkeys((*_WEAK_REFERENCES, *_WEAK_PROXIES), _Writer._weak_reference),
}


def locals_of(frames: FrameReader, reader: ValueReader, raw: RawFrame,
              limits: Limits = DEFAULT_LIMITS) -> list[tuple[str, str, str]]:
    """Name, type and text of the variables of a frame that have a value, at most `MAX_VARIABLES`.

    The type is the ``tp_name``, or ``?``; the text of an unreadable value is `UNREADABLE`.

    :raises GdbextError: the frame's variables cannot be read.
    """
    found = []
    for name, address in frames.variables(raw)[:MAX_VARIABLES]:
        kind, text = "?", UNREADABLE
        try:
            kind = reader.type_name(address)
            text = reader.text(address, limits)
        except GdbextError:
            pass
        found.append((name, kind, text))
    return found
