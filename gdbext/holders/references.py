"""Finds the Python locks that a Python frame refers to."""

from __future__ import annotations

import re
from collections.abc import Iterable

from gdbext.cpython.frames import RawFrame
from gdbext.errors import GdbextError
from gdbext.locks.python_reader import Reader
from gdbext.locks.seen import SeenLock

#: The character after the variable in an expression such as ``forks[1]`` and ``Pool.lock``.
_VARIABLE = re.compile(r"[.\[]")


class References:
    """Finds the locks that a frame refers to: by a variable, an attribute of one, or a global that it uses."""

    def __init__(self, wanted: Iterable[SeenLock]) -> None:
        self._by_object: dict[int, list[SeenLock]] = {}
        for found in wanted:
            for address in found.known_by:
                self._by_object.setdefault(address, []).append(found)
        # by ``dict`` of globals: the names of those that are global variables
        self._globals: dict[int, list[tuple[str, int]]] = {}

    def find(self, reader: Reader, raw: RawFrame) -> list[SeenLock]:
        """The locks that a frame refers to; none if it cannot be read."""
        try:
            objects = self._by_object.keys() & reader.frames.variable_values(raw)
            used = self._used_globals(reader, reader.frames.globals(raw))
            if used:
                names = reader.frames.names_of(raw.code)
                objects |= {address for name, address in used if name in names}
        except GdbextError:
            return []
        return [found for address in objects for found in self._by_object[address]]

    def _used_globals(self, reader: Reader, namespace: int) -> list[tuple[str, int]]:
        known = self._globals.get(namespace)
        if known is None:
            names = reader.names.globals_of(namespace)[1]
            known = [(_VARIABLE.split(names[address])[0], address) for address in self._by_object if address in names]
            self._globals[namespace] = known
        return known
