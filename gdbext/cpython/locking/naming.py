"""Finds the name of an object in the program: the variable or attribute of a frame that refers to it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gdbext.cpython.frames import FrameReader, RawFrame
from gdbext.cpython.locking.locks import LockReader
from gdbext.cpython.objects import Objects
from gdbext.cpython.values import ValueReader
from gdbext.errors import GdbextError, if_unreadable
from gdbext.remembered import remembered

#: Largest number of frames that are searched, of variables of one frame, and of global variables of one module.
_MAX_FRAMES = 4
_MAX_VARIABLES = 256
_MAX_GLOBALS = 4096


class Name(NamedTuple):
    """The name of an object: an expression of a frame.

    `object` is the object of which it is an attribute or item (``PyObject *``, or 0), `of_class` whether the attribute
    is one of that object's class, which all its instances share. `around` is the object that the expression refers to
    (``PyObject *``) if it contains the one that is named; else 0.
    """

    text: str
    object: int = 0
    of_class: bool = False
    around: int = 0


class Names:
    """Finds names of objects of one runtime; the globals of a module are read once."""

    def __init__(self, objects: Objects, frames: FrameReader, locks: LockReader, values: ValueReader) -> None:
        self._objects = objects
        self._frames = frames
        self._locks = locks
        self._values = values

    def find(self, stack: Sequence[RawFrame], wanted: Sequence[int]) -> Name | None:
        """The name of one of several objects in the innermost frame that refers to one; None if no near frame does.

        The name of an attribute of ``self`` includes the class (``self._lock of Pool``), that of a global variable the
        module (``accounts of bank``).

        :param wanted: ``PyObject *``; earlier ones are preferred.
        """
        for raw in stack[:_MAX_FRAMES]:
            try:
                names = self._in_frame(raw, wanted)
            except GdbextError:
                continue
            for address in wanted:
                if address in names:
                    return names[address]
        return None

    @remembered
    def globals_of(self, namespace: int) -> tuple[str, dict[int, str], dict[int, int]]:
        """A module's name, and the names of its global variables and of their parts by value (``PyObject *``).

        The last item has the objects that contain a named lock, by that lock.

        :param namespace: the ``dict`` of its globals (``PyDictObject *``).
        """
        names: dict[int, str] = {}
        parts: dict[int, str] = {}
        around: dict[int, int] = {}
        module = ""
        for name, value in self._named(namespace, _MAX_GLOBALS):
            if name == "__name__" and self._objects.type_name(value) == "str":
                module = self._objects.string(value)
            elif not name.startswith("__"):
                names.setdefault(value, name)
                inner = self._inside(value)
                parts.setdefault(inner, name)
                around.setdefault(inner, value)
                if len(parts) < _MAX_GLOBALS:
                    for part, item in self._parts(value, name):
                        parts.setdefault(item, part)
        return module, {**parts, **names}, {inner: value for inner, value in around.items() if inner not in names}

    def _in_frame(self, raw: RawFrame, wanted: Sequence[int]) -> dict[int, Name]:
        """The best name in a frame for each of the objects."""
        found: dict[int, Name] = {}
        variables = [pair for pair in self._frames.variables(raw)[:_MAX_VARIABLES] if not pair[0].startswith(".")]
        mine = next((value for name, value in variables if name == "self"), 0)
        if mine and mine not in wanted:
            kind = self._objects.type_name(mine)
            for name, value, of_class in self._reachable(mine):
                for address, around in ((value, 0), (self._inside(value), value)):
                    if address in wanted:
                        found.setdefault(address, Name(f"self.{name} of {kind}", mine, of_class, around))
        module, names, outer = self.globals_of(self._frames.globals(raw))
        if module == "__main__":
            module = raw.frame.file.rpartition("/")[2].partition(".py")[0] or module
        for value in wanted:
            if value in names:
                found.setdefault(value, Name(f"{names[value]} of {module}", around=outer.get(value, 0)))
        for name, value in variables:
            for address, around in ((value, 0), (self._inside(value), value)):
                if address in wanted and name != "self":
                    found.setdefault(address, Name(name, around=around))
        if not any(value in found for value in wanted):
            for name, value in variables:
                if value != mine and value not in wanted:
                    for inner, item, of_class in self._reachable(value, name):
                        if item in wanted:
                            found.setdefault(item, Name(inner, value, of_class))
        return found

    @if_unreadable(0)
    def _inside(self, address: int) -> int:
        """The lock (``PyObject *``) inside a `Condition` or the like, which is named after it; or 0."""
        lock = self._locks.decode(address)
        return 0 if lock is None else lock.guard or lock.address

    def _reachable(self, address: int, name: str = "") -> Iterator[tuple[str, int, bool]]:
        """(name, value, whether it is its class's) of an object's items and attributes, and of the items of these."""
        for path, item in self._parts(address, name):
            yield path, item, False
        try:
            attributes = [(*pair, False) for pair in itertools.islice(self._values.attributes(address), _MAX_VARIABLES)]
            for namespace in self._objects.class_namespaces(address):
                attributes += [(*pair, True) for pair in self._named(namespace, _MAX_VARIABLES)]
        except GdbextError:
            return
        for attribute, value, of_class in attributes:
            path = f"{name}.{attribute}" if name else attribute
            yield path, value, of_class
            for inner, item in self._parts(value, path):
                yield inner, item, of_class

    def _named(self, namespace: int, limit: int) -> Iterator[tuple[str, int]]:
        return itertools.islice(self._objects.named_items(namespace), limit)

    def _parts(self, address: int, name: str) -> Iterator[tuple[str, int]]:
        """(expression, value) of the items of a builtin container, or of the attributes of a class."""
        try:
            kind = self._objects.type_name(address)
            if kind in ("list", "tuple"):
                items = self._objects.list_items(address) if kind == "list" else self._objects.tuple_items(address)
                for i, item in enumerate(items[:_MAX_VARIABLES]):
                    yield f"{name}[{i}]", item
            elif kind == "dict":
                for key, item in self._named(address, _MAX_VARIABLES):
                    yield f"{name}[{key!r}]", item
            elif kind == "type":
                for attribute, item in self._named(self._objects.class_namespace(address), _MAX_VARIABLES):
                    yield f"{name}.{attribute}", item
        except GdbextError:
            return
