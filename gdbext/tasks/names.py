"""The program's names for objects that tasks wait for."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from gdbext.cpython.frames import FrameReader, RawFrame
from gdbext.cpython.objects import Objects
from gdbext.errors import if_unreadable
from gdbext.remembered import remembered

#: In how many frames of the program a name for the awaited object is searched.
_NAMING_FRAMES = 5


class AwaitedNames:
    """Finds names in the frames of one interpreter."""

    def __init__(self, objects: Objects, frames: FrameReader) -> None:
        self._objects = objects
        self._frames = frames
        self._names: dict[tuple[int, int], str | None] = {}

    def find(self, frames: Sequence[RawFrame], address: int, is_own: Callable[[RawFrame], bool]) -> str | None:
        """The name of an object (``PyObject *``) in the frames of a task; None if they have none.

        :param frames: outermost first.
        :param is_own: whether a frame is the program's.
        """
        for raw in itertools.islice(filter(is_own, reversed(frames)), _NAMING_FRAMES):
            key = (raw.code, address)
            if key not in self._names:
                self._names[key] = self._in_frame(raw, address)
            if self._names[key] is not None:
                return self._names[key]
        return None

    @if_unreadable(None)  # a name is for the reader only
    def _in_frame(self, raw: RawFrame, address: int) -> str | None:
        variables = self._frames.variables(raw)
        for name, value in variables:
            if value == address:
                return name
        owner = dict(variables).get("self")
        for name, value in self._objects.attributes(owner) if owner is not None else ():
            if value == address:
                return f"self.{name}"
        used = self._frames.names_of(raw.code)
        return next((name for name, value in self._global_variables(self._frames.globals(raw)).items()
                     if value == address and name in used), None)

    @remembered
    def _global_variables(self, namespace: int) -> dict[str, int]:
        pairs = ((self._objects.key_name(key), value) for key, value in self._objects.dict_items(namespace))
        return {name: value for name, value in pairs if name is not None}
