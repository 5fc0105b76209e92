"""Finds the value that distinguishes an object from others of its type: its name, number, path or key."""

from __future__ import annotations

import itertools

from gdbext.cpython.objects import MAX_STRING, Objects
from gdbext.cpython.values import ValueReader
from gdbext.errors import GdbextError
from gdbext.model import NamedObject
from gdbext.remembered import remembered

#: The attributes that programs keep such a value in, the preferred one first.
ATTRIBUTES = ("name", "id", "path", "key", "title", "uuid")
#: Largest number of attributes of one object that are read.
_MAX_ATTRIBUTES = 256
#: Longest text that is shown in full, and what is shown of the start and the end of a longer one: paths differ at
#: their ends. In characters.
_MAX_TEXT = 40
_START, _END = 13, 20
#: Longest ``bytes`` that is shown.
_MAX_BYTES = 20
#: Longest value with its quotes and escapes; a text of mostly control characters is not a name.
_MAX_SHOWN = 60


class ObjectNames:
    """Finds the telling value of objects of one runtime; each object is read once."""

    def __init__(self, objects: Objects, values: ValueReader) -> None:
        self._objects = objects
        self._values = values

    @remembered
    def find(self, address: int) -> NamedObject | None:
        """The first of `ATTRIBUTES` of an object that is a plain value; None if there is none, or none is certain.

        Only instances of classes that were made at run time have one. A value in the class is the same for all of them
        and is not read, nor is a property computed.

        :param address: ``PyObject *``.
        """
        try:
            kind = self._values.kind(self._objects.type_address(address))
            if not kind.heap or not kind.name or self._objects.makes_types(kind.address):
                return None
            found = dict(itertools.islice(self._values.attributes(address), _MAX_ATTRIBUTES))
        except GdbextError:
            return None
        for attribute in ATTRIBUTES:
            text = self._plain(found.get(attribute, 0))
            if text is not None:
                return NamedObject(kind.name, attribute, text)
        return None

    def _plain(self, address: int) -> str | None:
        """The text of a ``str``, ``int`` or short ``bytes`` that is not empty; None for any other object."""
        try:
            kind = self._values.kind(self._objects.type_address(address)) if address else None
            if kind is None or not kind.exact:
                return None
            if kind.builtin == "int":
                return str(self._objects.integer(address))
            text = (self._text(address) if kind.builtin == "str" else
                    self._bytes(address) if kind.builtin == "bytes" else None)
        except GdbextError:
            return None
        return text if text is not None and len(text) <= _MAX_SHOWN else None

    def _text(self, address: int) -> str | None:
        text, length = self._objects.string_start(address, MAX_STRING)
        if length <= _MAX_TEXT:
            return repr(text) if text else None
        # dots outside quotes are not part of the value
        return f"{text[:_START]!r}...{text[-_END:]!r}" if len(text) == length else None

    def _bytes(self, address: int) -> str | None:
        data = self._objects.bytes_start(address, _MAX_BYTES + 1)
        if not 0 < len(data) <= _MAX_BYTES:
            return None
        return repr(data) if data.isascii() and data.decode("ascii").isprintable() else f"0x{data.hex()}"
