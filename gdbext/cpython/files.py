"""Open files of Python programs: the descriptors of file objects.

Sources: CPython 3.6 to 3.14 Modules/_io/fileio.c (``fileio``), bufferedio.c (``buffered``), textio.c (``textio``).
"""

from __future__ import annotations

from typing import Final

from gdbext.cpython.objects import Objects
from gdbext.errors import if_unreadable
from gdbext.inferior.cache import read_u32, read_u64
from gdbext.inferior.protocol import Memory
from gdbext.layout.table import Layouts

_TEXT: Final = "_io.TextIOWrapper"
_BUFFERED: Final = frozenset(("_io.BufferedReader", "_io.BufferedWriter", "_io.BufferedRandom"))
_RAW: Final = "_io.FileIO"


class FileReader:
    """Reads the descriptors of file objects."""

    def __init__(self, memory: Memory, layouts: Layouts, objects: Objects) -> None:
        self._memory = memory
        self._objects = objects
        # the first member of ``fileio`` is ``fd``, that of ``buffered`` is ``raw``
        self._first = layouts["PyObject"].size

    @if_unreadable(None)
    def descriptor(self, address: int, numbers: bool = False) -> int | None:
        """The descriptor of a file object (``PyObject *``); None for other objects.

        :param numbers: whether an ``int`` is a descriptor.
        """
        names = self._objects.type_names(address)
        if numbers and names[:1] == ("int",):
            number = self._objects.integer(address, 60)
            return number if 0 <= number < 1 << 31 else None
        if _TEXT in names:
            address = self._objects.read_member("textio", address, "buffer")
            names = self._objects.type_names(address) if address else ()
        if not _BUFFERED.isdisjoint(names):
            address = read_u64(self._memory, address + self._first)
            names = self._objects.type_names(address) if address else ()
        if _RAW not in names:
            return None
        number = read_u32(self._memory, address + self._first)
        return number if number < 1 << 31 else None
