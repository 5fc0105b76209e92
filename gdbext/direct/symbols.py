"""Symbols of loaded files: those of the file itself, and of its separate debug file (``.gnu_debuglink``, build id)."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cached_property

from gdbext.elf.headers import Read
from gdbext.elf.symtab import Entry, SymbolFile
from gdbext.errors import GdbextError
from gdbext.remembered import remembered

#: The folder with debug files of installed packages.
DEBUG_FOLDER = "/usr/lib/debug"
#: Sections with the lines of functions.
_LINES = (".debug_line", ".zdebug_line")


class LoadedFile:
    """The symbols of one loaded file.

    :param file: the file.
    :param bias: the difference between its run-time and link-time addresses.
    :param place: the file's path on this machine.
    :param open_file: opens a file of this machine; None if it cannot.
    """

    def __init__(self, file: SymbolFile, bias: int, place: str | None, open_file: Callable[[str], Read | None]) -> None:
        self._file = file
        self._bias = bias
        self._place = place
        self._open = open_file

    @property
    def build_id(self) -> str | None:
        """The build id, in hexadecimal, or None."""
        return self._file.build_id()

    @property
    def has_lines(self) -> bool:
        """Whether the lines of its functions are known, here or in its debug file."""
        return any(file.section(name) is not None for file in (self._file, self._debug_file) if file is not None
                   for name in _LINES)

    @remembered
    def symbol(self, address: int) -> str | None:
        """The name of the symbol that covers a run-time address, not demangled; None if none covers it.

        Of two files, the symbol that begins closer to the address is taken, of the file itself if both begin at the
        same address, as GDB does (GDB 13.1 gdb/minsyms.c, lookup_minimal_symbol_by_pc_section).
        """
        found = self._entry(address)
        return found.name.decode("utf-8", "backslashreplace") if found is not None else None

    def function(self, address: int) -> str | None:
        """As `symbol`, only for a symbol that begins at the address."""
        found = self._entry(address)
        return self.symbol(address) if found is not None and found.address == address - self._bias else None

    @remembered
    def _entry(self, address: int) -> Entry | None:
        link_address = address - self._bias
        found = _find(self._file, link_address)
        other = _find(self._debug_file, link_address) if self._debug_file is not None else None
        return other if other is not None and (found is None or other.address > found.address) else found

    @cached_property
    def _debug_file(self) -> SymbolFile | None:
        """The separate debug file, which must have the same build id."""
        build_id = self.build_id
        places = [f"{DEBUG_FOLDER}/.build-id/{build_id[:2]}/{build_id[2:]}.debug"] if build_id else []
        link = self._file.debug_link()
        if link is not None and "/" not in link and self._place is not None:
            folder = os.path.dirname(os.path.realpath(self._place))
            places += [f"{folder}/{link}", f"{folder}/.debug/{link}", f"{DEBUG_FOLDER}{folder}/{link}"]
        for place in places:
            read = self._open(place)
            try:
                file = SymbolFile(read, True) if read is not None else None
                if file is not None and build_id is not None and file.build_id() == build_id:
                    return file
            except GdbextError:
                continue
        return None


def _find(file: SymbolFile, address: int) -> Entry | None:
    try:
        return file.find(address)
    except GdbextError:  # no symbol near the address, or a damaged table
        return None
