"""Symbols of shared libraries with `set auto-solib-add off`, which keeps GDB from reading them by itself.

GDB takes seconds to read the symbols of large libraries, such as PyTorch's, while the process is paused. With this
setting it still knows the addresses of libraries and their sections, which gdbext's own unwinder needs, but it neither
names addresses nor unwinds by frame descriptions. This module reads a library's symbols when an address in it needs
them. GDB reads small libraries and those with debug information; in other large ones only the symbol table is searched
(`elf.symtab`). The results are the same as when GDB has read all symbols.
"""

from __future__ import annotations

import functools
import os
import re

import gdb

from gdbext.debugger.console import TARGET_FILES, execute, output, sysroot
from gdbext.debugger.settings import settings
from gdbext.elf.headers import open_regular
from gdbext.elf.symtab import SymbolFile, Undecided
from gdbext.errors import GdbextError
from gdbext.inferior.protocol import Module
from gdbext.remembered import remembered

# `info sharedlibrary`: "0x00007f71 0x00007f72  Yes (*)     /lib/libz.so.1"; the addresses are missing if the file is,
# and GDB 17 and later may have a column for the namespace of dlmopen
_LIBRARY = re.compile(r"^(?:0x[0-9a-f]+\s+0x[0-9a-f]+)?\s+(?:\[\[\d+\]\]\s+)?(Yes|No)(?: \(\*\))?\s+(\S.*)$")
# characters with a special meaning in the regular expression or the argument of GDB's `sharedlibrary`
_SPECIAL = re.compile(r"[^\w/-]", re.ASCII)
#: GDB reads symbols of up to this many bytes, including names, in about 30 ms.
_SMALL = 1 << 20


class LazySymbols:
    """The libraries of a target whose symbols GDB has not read.

    :param root: the root directory of the target's file system, if that is not GDB's.
    :param may_load: whether GDB may read symbols. Reading them while GDB prints a stack or evaluates an expression
        would make that invalid.
    """

    def __init__(self, root: str | None, may_load: bool) -> None:
        self._root = root
        self._may_load = may_load
        self._files: dict[str, SymbolFile | None] = {}
        if may_load and settings().load_all:
            self.load_all()

    @functools.cached_property
    def unread(self) -> set[str]:
        """The paths of these libraries; empty without `set auto-solib-add off`."""
        if not is_lazy():
            return set()
        try:
            text = output("info sharedlibrary")
        except gdb.error:
            return set()
        matches = [match for match in map(_LIBRARY.match, text.splitlines()) if match]
        return {match[2] for match in matches if match[1] == "No"}

    def load(self, module: Module) -> bool:
        """Have GDB read a library's symbols if it has not; return whether it read them."""
        if not self._may_load or module.path not in self.unread:
            return False
        self.unread.discard(module.path)  # also if it fails
        try:
            execute(f"sharedlibrary ^{_SPECIAL.sub(_any, module.path)}$")
        except gdb.error:
            return False
        return True

    def load_all(self) -> bool:
        """Have GDB read the symbols of all libraries; return whether some were missing."""
        if not self._may_load or not self.unread:
            return False
        self.unread.clear()
        execute("sharedlibrary")
        return True

    def name(self, module: Module, address: int) -> tuple[bool, str | None]:
        """Find the symbol at an address of a library that GDB has not read, in the library's symbol table.

        :return: whether GDB would find the same, and the symbol's name in the table, or None.
        """
        file = self._file(module.path)
        if file is None:
            return False, None
        bias = file.bias(module)
        if bias is None or self._may_load and self.is_for_gdb(module.path):
            return False, None
        try:
            return True, file.symbol(address - bias)
        except Undecided:
            return False, None
        except GdbextError:
            self._files[module.path] = None
            return False, None

    @remembered
    def is_for_gdb(self, path: str) -> bool:
        """Whether GDB is to read a library's symbols: they are few, or it has debug information."""
        file = self._file(path)
        return file is not None and (file.symbol_size <= _SMALL or self._has_debug_file(path, file))

    def build_id(self, module: Module) -> str | None:
        """Return the build id of a library's file in hexadecimal, or None."""
        file = self._file(module.path)
        return file.build_id() if file is not None else None

    def _file(self, path: str) -> SymbolFile | None:
        if path not in self._files:
            try:
                self._files[path] = SymbolFile(open_regular(self._place(path)))
            except (GdbextError, OSError, ValueError):
                self._files[path] = None
        return self._files[path]

    def _place(self, path: str) -> str:
        return f"{self._root or ''}{path[len(TARGET_FILES):]}" if path.startswith(TARGET_FILES) else path

    def _has_debug_file(self, path: str, file: SymbolFile) -> bool:
        """Whether GDB would find debug information of a library, in its file or a separate one."""
        if file.has_debug_information or _asks_servers():
            return True
        places = _separate_debug_files(path, file)
        if path.startswith(TARGET_FILES):
            places += [self._place(TARGET_FILES + place) for place in places]
        return any(map(os.path.exists, places))


def _any(character: re.Match[str]) -> str:
    """Return a GDB regular expression that matches any character; GDB matches bytes."""
    return "." * len(character[0].encode("utf-8", "surrogateescape"))


def is_lazy() -> bool:
    """Whether `set auto-solib-add off` is in effect."""
    return not gdb.parameter("auto-solib-add")


def _separate_debug_files(path: str, file: SymbolFile) -> list[str]:
    """List where GDB searches for a library's debug information (GDB 13.1 gdb/symfile.c, find_separate_debug_file)."""
    folders = [folder for folder in str(gdb.parameter("debug-file-directory") or "").split(os.pathsep) if folder]
    root = sysroot().replace(TARGET_FILES, "").rstrip("/")
    folders += [f"{root}{folder}" for folder in folders if root]
    build_id, link = file.build_id(), file.debug_link()[0]
    found = [f"{folder}/.build-id/{build_id[:2]}/{build_id[2:]}.debug" for folder in folders] if build_id else []
    if link is not None:
        own = path[len(TARGET_FILES):] if path.startswith(TARGET_FILES) else path
        for place in {os.path.dirname(own), os.path.dirname(os.path.realpath(own))}:
            inside = place[len(root):] if root and place.startswith(f"{root}/") else place
            found += [f"{place}/{link}", f"{place}/.debug/{link}",
                      *(f"{folder}/{part}/{link}" for folder in folders for part in {place, inside})]
    return found


def _asks_servers() -> bool:
    try:
        return gdb.parameter("debuginfod enabled") != "off" and bool(gdb.parameter("debuginfod urls"))
    except RuntimeError:  # GDB 10 has no such setting, and asks if there are servers
        return bool(os.environ.get("DEBUGINFOD_URLS"))

