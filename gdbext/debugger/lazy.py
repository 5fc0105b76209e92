"""Symbols of shared libraries where GDB does not read them by itself: `set auto-solib-add off`.

GDB reads the symbols of the largest libraries, such as those of PyTorch, for seconds while the process is paused. With
this setting it still knows where libraries and their sections are, so that our own unwinder and search for names work,
but it neither names addresses nor unwinds by frame descriptions. Here a library's symbols are read when an address in
it needs them: small ones, and those with debug information, by GDB; of other large ones only the symbol table is
searched (`elf.symtab`). Answers are the same as when GDB has read everything.
"""

from __future__ import annotations

import functools
import os
import re
import stat
from collections.abc import Sequence

import gdb

from gdbext.debugger.console import execute, output
from gdbext.debugger.settings import settings
from gdbext.elf.headers import Read, opened_file
from gdbext.elf.symtab import SymbolFile, Undecided
from gdbext.errors import GdbextError
from gdbext.inferior.protocol import Module

# `info sharedlibrary`: "0x00007f71 0x00007f72  Yes (*)     /lib/libz.so.1"; addresses are missing where the file is,
# and GDB 17 and later may have a column for the namespace of dlmopen
_LIBRARY = re.compile(r"^(?:0x[0-9a-f]+\s+0x[0-9a-f]+)?\s+(?:\[\[\d+\]\]\s+)?(Yes|No)(?: \(\*\))?\s+(\S.*)$")
# what stands for itself in the expressions of GDB's `sharedlibrary`, and would not end its argument
_PLAIN = re.compile(r"[^\w/-]", re.ASCII)
#: How GDB begins the path of a file in the target's file system.
_ELSEWHERE = "target:"
#: GDB reads symbols of up to this many bytes, names included, in some 30 ms.
_SMALL = 1 << 20


class LazySymbols:
    """The libraries of a target whose symbols GDB has not read.

    :param root: the target's file system, if that is another one than GDB's.
    :param may_load: whether GDB may read symbols; not while it is in the middle of a stack or an expression, which
        would become invalid.
    """

    def __init__(self, root: str | None, may_load: bool) -> None:
        self._root = root
        self._may_load = may_load
        self._files: dict[str, SymbolFile | None] = {}
        self._for_gdb: dict[str, bool] = {}
        if may_load and settings().load_all:
            self.load_all()

    @functools.cached_property
    def _unread(self) -> set[str]:
        """The paths of the libraries without symbols; asked for late, since backtraces make many of these objects."""
        try:
            text = output("info sharedlibrary")
        except gdb.error:
            return set()
        matches = [match for match in map(_LIBRARY.match, text.splitlines()) if match]
        return {match[2] for match in matches if match[1] == "No"}

    def is_unread(self, module: Module) -> bool:
        """Whether GDB has no symbols of a library."""
        return module.path in self._unread

    def load(self, module: Module) -> bool:
        """Have GDB read a library's symbols; whether it has them now and had not before."""
        if not self._may_load or module.path not in self._unread:
            return False
        self._unread.discard(module.path)  # it is not tried again
        try:
            execute(f"sharedlibrary ^{_PLAIN.sub(_any, module.path)}$")
        except gdb.error:
            return False
        return True

    def load_all(self) -> bool:
        """Have GDB read the symbols of all libraries; whether there were some without."""
        if not self._may_load or not self._unread:
            return False
        self._unread.clear()
        execute("sharedlibrary")
        return True

    def name(self, module: Module, address: int) -> tuple[bool, str | None]:
        """The symbol at an address of a library that GDB has not read, by the library's own symbol table.

        :return: whether GDB would say the same, and the symbol's name in the table, or None.
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

    def is_for_gdb(self, path: str) -> bool:
        """Whether GDB reads a library's symbols once an address is in it: there are few, or more than a table."""
        if path not in self._for_gdb:
            file = self._file(path)
            self._for_gdb[path] = file is not None and (file.symbol_size <= _SMALL or self._has_more(path, file))
        return self._for_gdb[path]

    def build_id(self, module: Module) -> str | None:
        """The build id of a library's file, in hexadecimal, or None."""
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
        # GDB marks what it reads in another file system than its own
        return f"{self._root or ''}{path[len(_ELSEWHERE):]}" if path.startswith(_ELSEWHERE) else path

    def _has_more(self, path: str, file: SymbolFile) -> bool:
        """Whether GDB would find debug information of a library, in it or elsewhere."""
        if file.has_debug_information or _asks_servers():
            return True
        places = [*_separate(path, file)]
        if path.startswith(_ELSEWHERE):
            places += [self._place(_ELSEWHERE + place) for place in places]
        return any(map(os.path.exists, places))


def open_regular(path: str) -> Read:
    """Open a regular file for reading parts of it.

    :raises OSError: it cannot be opened, or is something else.
    :raises ValueError: the path has a null character.
    """
    if not stat.S_ISREG(os.stat(path).st_mode):  # opening a device may have an effect
        raise OSError("not a regular file")
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    file = os.fdopen(handle, "rb", buffering=0)  # closed with the last reference to it
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        raise OSError("not a regular file")
    return opened_file(file)


def _any(character: re.Match[str]) -> str:
    """A GDB regular expression for any character; GDB counts bytes."""
    return "." * len(character[0].encode("utf-8", "surrogateescape"))


def is_lazy() -> bool:
    """Whether GDB was told not to read symbols of libraries by itself."""
    return not gdb.parameter("auto-solib-add")


def _separate(path: str, file: SymbolFile) -> Sequence[str]:
    """Where GDB looks for a library's debug information (GDB 13.1 gdb/symfile.c, find_separate_debug_file)."""
    folders = [folder for folder in str(gdb.parameter("debug-file-directory") or "").split(os.pathsep) if folder]
    sysroot = str(gdb.parameter("sysroot") or "").replace(_ELSEWHERE, "").rstrip("/")
    folders += [f"{sysroot}{folder}" for folder in folders if sysroot]
    build_id, link = file.build_id(), file.debug_link()
    found = [f"{folder}/.build-id/{build_id[:2]}/{build_id[2:]}.debug" for folder in folders] if build_id else []
    if link is not None:
        own = path[len(_ELSEWHERE):] if path.startswith(_ELSEWHERE) else path
        for place in {os.path.dirname(own), os.path.dirname(os.path.realpath(own))}:
            inside = place[len(sysroot):] if sysroot and place.startswith(f"{sysroot}/") else place
            found += [f"{place}/{link}", f"{place}/.debug/{link}",
                      *(f"{folder}/{part}/{link}" for folder in folders for part in {place, inside})]
    return found


def _asks_servers() -> bool:
    try:
        return gdb.parameter("debuginfod enabled") != "off" and bool(gdb.parameter("debuginfod urls"))
    except RuntimeError:  # GDB 10 has no such setting, and may ask whenever there are servers
        return bool(os.environ.get("DEBUGINFOD_URLS"))

