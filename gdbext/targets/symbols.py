"""Symbols and source lines of loaded files: of the file itself, and of its separate debug file.

That is found by the build id or by ``.gnu_debuglink``.
"""

from __future__ import annotations

import functools
import os
import zlib
from collections.abc import Callable, Iterator
from functools import cached_property

from gdbext.dwarf.places import DebugInformation
from gdbext.dwarf.sections import Budget
from gdbext.elf.headers import Read
from gdbext.elf.mini_debug import mini_debug_file
from gdbext.elf.symtab import Entry, SymbolFile
from gdbext.errors import GdbextError, if_unreadable
from gdbext.remembered import remembered

#: The folder with debug files of installed packages.
DEBUG_FOLDER = "/usr/lib/debug"
#: Sections with the lines of functions.
_LINES = (".debug_line", ".zdebug_line")
#: Sizes in bytes: a build id, the largest file whose checksum is computed, and what is read at once for that.
_BUILD_ID_SIZE, _MAX_CHECKED, _PIECE = 20, 1 << 30, 1 << 20


class LoadedFile:
    """The symbols of one loaded file.

    :param file: the file.
    :param bias: the difference between its run-time and link-time addresses.
    :param place: the file's path on this machine.
    :param open_file: opens a file of this machine; None if it cannot.
    """

    def __init__(self, file: SymbolFile, bias: int, place: str | None, open_file: Callable[[str], Read | None]) -> None:
        self._file = file
        self.bias = bias
        self._place = place
        self._open = open_file

    @property
    def build_id(self) -> str | None:
        """The build id, in hexadecimal, or None."""
        return self._file.build_id()

    @property
    def has_lines(self) -> bool:
        """Whether the lines of its functions are known, here or in its debug file."""
        return self._with_lines is not None

    @property
    def _with_lines(self) -> SymbolFile | None:
        return next((file for file in (self._file, self._debug_file) if file is not None
                     and any(file.section(name) is not None for name in _LINES)), None)

    @property
    def identity(self) -> tuple[str | None, str | None]:
        """What is equal for one file in several reads of a process: the path on this machine, and the build id."""
        return self._place, self.build_id

    def debug_information(self, budget: Budget) -> DebugInformation | None:
        """A reader of the file's debug information; None if it has none.

        :param budget: the time that reading may take.
        """
        file = self._with_lines
        return DebugInformation(file, budget, lambda: self._shared_file(file)) if file is not None else None

    @remembered
    def symbol(self, address: int) -> str | None:
        """The name of the symbol that covers a run-time address, not demangled; None if none covers it.

        Of two files, the symbol that begins closer to the address is taken, of the file itself if both begin at the
        same address, as GDB does (GDB 13.1 gdb/minsyms.c, lookup_minimal_symbol_by_pc_section).
        """
        found = self._entry(address)
        return found.name.decode("utf-8", "backslashreplace") if found is not None else None

    def symbol_start(self, address: int) -> int | None:
        """The link-time address of the symbol that covers a run-time address; None if none covers it."""
        found = self._entry(address)
        return found.address if found is not None else None

    @if_unreadable(None)
    def address_of(self, name: str) -> int | None:
        """The run-time address of the symbol with a name, of the file itself; None if it has none."""
        found = self._file.address_of(name)
        return found + self.bias if found is not None else None

    def function(self, address: int) -> str | None:
        """As `symbol`, only for a symbol that begins at the address."""
        found = self._entry(address)
        return self.symbol(address) if found is not None and found.address == address - self.bias else None

    @remembered
    def _entry(self, address: int) -> Entry | None:
        link_address = address - self.bias
        found = _find(self._file, link_address)
        further = self._debug_file or self._mini_debug_file
        other = _find(further, link_address) if further is not None else None
        return other if other is not None and (found is None or other.address > found.address) else found

    @cached_property
    def _debug_file(self) -> SymbolFile | None:
        """The separate debug file, which must have the same build id, or else the right checksum."""
        build_id = self.build_id
        if build_id:
            found = self._of_build(f"{DEBUG_FOLDER}/.build-id/{build_id[:2]}/{build_id[2:]}.debug", build_id)
            if found is not None:
                return found
        name, checksum = self._file.debug_link()
        if name is not None and "/" not in name and self._place is not None:
            folder = os.path.dirname(os.path.realpath(self._place))
            for place in (f"{folder}/{name}", f"{folder}/.debug/{name}", f"{DEBUG_FOLDER}{folder}/{name}"):
                found = self._of_build(place, build_id)
                if found is not None and (build_id or _checksum(found.read) == checksum):
                    return found
        return None

    @cached_property
    def _mini_debug_file(self) -> SymbolFile | None:
        """The compressed symbol table inside the file, which GDB reads if there is no separate debug file."""
        try:
            return mini_debug_file(self._file)
        except GdbextError:
            return None

    def _of_build(self, place: str, build_id: str | None) -> SymbolFile | None:
        """The file at a place, if it has a build id."""
        read = self._open(place)
        try:
            file = SymbolFile(read) if read is not None else None
            return file if file is not None and file.build_id() == build_id else None
        except GdbextError:
            return None

    def _shared_file(self, file: SymbolFile) -> SymbolFile | None:
        """The file that several debug files share (``.gnu_debugaltlink``), if it has the build id that they expect."""
        name, build_id = file.shared_link()
        if name is None or len(build_id) != 2 * _BUILD_ID_SIZE:
            return None
        folders = [DEBUG_FOLDER, *([os.path.dirname(os.path.realpath(self._place))] if self._place is not None else [])]
        places = [f"{DEBUG_FOLDER}/.build-id/{build_id[:2]}/{build_id[2:]}.debug",
                  *(os.path.join(folder, name) for folder in folders)]
        return next(filter(None, (self._of_build(place, build_id) for place in places)), None)


def _checksum(read: Read) -> int:
    """The checksum of a file, which ``.gnu_debuglink`` contains."""
    return functools.reduce(lambda found, piece: zlib.crc32(piece, found), _pieces(read), 0)


def _pieces(read: Read) -> Iterator[bytes]:
    for at in range(0, _MAX_CHECKED, _PIECE):
        piece = read(at, _PIECE)
        if not piece:
            return
        yield piece


def _find(file: SymbolFile, address: int) -> Entry | None:
    try:
        return file.find(address)
    except GdbextError:  # no symbol near the address, or a damaged table
        return None
