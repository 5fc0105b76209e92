"""Finds the values of expressions in Python frames as they are now: a variable and attributes. Nothing is evaluated."""

from __future__ import annotations

from gdbext.cpython.code.lock_calls import Place
from gdbext.cpython.frames import FrameReader, RawFrame
from gdbext.cpython.objects import Objects
from gdbext.cpython.values import ValueReader
from gdbext.errors import if_unreadable
from gdbext.remembered import remembered

#: Types of the attributes of a class whose value is computed when they are read.
_COMPUTED = frozenset(("property", "classmethod", "staticmethod", "function", "functools.cached_property",
                       "cached_property"))


class PlaceReader:
    """Reads expressions in the frames of one runtime."""

    def __init__(self, objects: Objects, frames: FrameReader, values: ValueReader) -> None:
        self._objects = objects
        self._frames = frames
        self._values = values

    @if_unreadable(0)
    def value(self, raw: RawFrame, place: Place) -> int:
        """The value (``PyObject *``) of an expression in a frame, or 0 if it is not known."""
        if place.is_global:
            value = self._objects.dict_get(self._frames.globals(raw), place.variable) or 0
        else:
            value = self._frames.variable(raw, place.variable)
        for name in place.attributes:
            value = self._attribute(value, name) if value else 0
        return value

    def is_only_here(self, raw: RawFrame, place: Place) -> bool:
        """Whether only the frame's function can change the value: a local variable that no inner function shares."""
        names, cells = self._frames.variable_names(raw.code)
        shared = {names[index] for index in cells if index < len(names)}
        return not place.is_global and not place.attributes and place.variable not in shared

    def _attribute(self, address: int, name: str) -> int:
        if self._objects.makes_types(self._objects.type_address(address)):
            return self._in_classes(tuple(self._objects.base_types(address)), name)
        of_class = self._in_classes(tuple(self._objects.base_types(self._objects.type_address(address))), name)
        if of_class and self._objects.type_name(of_class) in _COMPUTED:
            return 0
        own = self._objects.attribute(address, name)
        if own:
            return own
        kind = self._values.kind(self._objects.type_address(address))
        slots = dict(self._values.in_slots(address, kind))
        if name in slots:
            return slots[name]
        is_slot = of_class and self._objects.type_name(of_class) in ("member_descriptor", "getset_descriptor")
        return 0 if is_slot else of_class

    @remembered
    def _in_classes(self, kinds: tuple[int, ...], name: str) -> int:
        """The attribute of the first class that has it (``PyTypeObject *``), or 0.

        With several bases only one is searched, so that an attribute of another one is not found.
        """
        for kind in kinds:
            namespace = self._objects.class_namespace(kind)
            found = self._objects.dict_get(namespace, name) if namespace else None
            if found:
                return found
        return 0
