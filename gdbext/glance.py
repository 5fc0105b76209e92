"""Reads the process groups of a process of a job, without its threads. Nothing is stopped.

It takes milliseconds, so a job of many ranks is seen at nearly one moment.
"""

from __future__ import annotations

import functools
import os

from gdbext.elf.headers import Read, open_regular
from gdbext.elf.mapped import mapped_modules
from gdbext.errors import GdbextError
from gdbext.inferior.address_space import Region
from gdbext.inferior.cache import CachedMemory
from gdbext.inferior.proc.maps import ProcessMemory
from gdbext.inferior.proc.process import Proc
from gdbext.libraries import LIBRARIES
from gdbext.library import Library
from gdbext.locks.library_parts import ranks_of
from gdbext.model import Group


class Glances:
    """Reads processes of this machine, which mostly have the same libraries."""

    def __init__(self) -> None:
        # the link-time addresses of variables, by the device and inode of the file, and the symbol
        self._addresses: dict[tuple[object, str], int | None] = {}
        #: The files in whose table of symbols a variable would be, and that have only the one for the dynamic linker.
        self.stripped: set[str] = set()

    def groups(self, pid: int) -> tuple[Group, ...]:
        """The process groups of a process; empty if it has none, or if it may not be read."""
        proc = Proc(pid)
        try:
            memory = CachedMemory(ProcessMemory(proc.task))
        except OSError:
            return ()
        found: list[Group] = []
        for library in LIBRARIES:
            regions = [region for region in proc.regions() if region.path is not None
                       and library.has_ranks and library.has(os.path.basename(region.path))]
            if regions:
                find = functools.partial(self._variables, proc, memory, library, regions)
                try:
                    found += ranks_of(library)(memory, find).groups()
                except (GdbextError, OSError):
                    continue
        return tuple(found)

    def _variables(self, proc: Proc, memory: CachedMemory, library: Library, regions: list[Region],
                   name: str) -> list[int]:
        """The addresses of a variable in the files of a library, by its symbol."""
        files = {region.path: region.file for region in regions}
        found = []
        for each in mapped_modules(memory, regions, (), lambda path: _open(proc, path)):
            key = (files.get(each.module.path), name)
            if each.file is not None and key not in self._addresses:
                self._addresses[key] = each.file.address_of(name)
                if each.file.section(".symtab") is None:
                    self.stripped.add(os.path.basename(each.module.path))
            address = self._addresses.get(key)
            if address is not None:
                found.append(address + each.bias)
        return found


def _open(proc: Proc, path: str) -> Read | None:
    """Open a file of the process's file system, or of this machine's if the first cannot be read."""
    for place in (proc.mapped_file(path), path):
        try:
            return open_regular(place)
        except (OSError, ValueError):
            continue
    return None
