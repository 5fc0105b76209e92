"""Reads symbols that the snapshot of a process is likely to need, before the process is stopped.

GDB reads symbols when it has attached, the C library's always, and `debugger.lazy` those of libraries that stacks are
in; that takes longer than all the rest of the pause. GDB does not read a library again that it was given before, by the
name and at the place that the dynamic linker uses. Which ones those will be is a guess (`debugger.preview`): a wrong
guess costs time before the stop, and a missing one time in it.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence

import gdb

from gdbext.debugger.console import execute, quoted
from gdbext.debugger.lazy import LazySymbols
from gdbext.debugger.preview import Preview
from gdbext.elf.link_map import LinkedFile
from gdbext.inferior.proc import Proc

#: No further library is begun after so many seconds, nor any function looked up.
_SECONDS = 1.0
#: For how many functions GDB reads line numbers.
_MAX_FUNCTIONS = 200
#: What GDB itself reads whatever it was told (GDB 13.1 gdb/solib.c, libpthread_name_p).
_THREADS = re.compile(r"^libc\.|libpthread")
_ELSEWHERE = "target:"


class Prefetch:
    """The libraries of a process that GDB is given before it attaches to it; GDB has its executable already."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._end = time.monotonic() + _SECONDS
        self._symbols = LazySymbols(None, True)
        self._root = f"/proc/{pid}/root"
        self._shares_files = _mount_namespace(pid) == _mount_namespace("self")
        #: The names by which they were added, with where each was mapped from what path.
        self._added: dict[str, tuple[int, str]] = {}

    def read(self) -> None:
        """Have GDB read symbols."""
        preview = Preview(self._pid)
        addresses = preview.code_addresses()
        threads: dict[str | None, int] = {}
        for address, count in addresses.items():
            path = preview.path_at(address)
            threads[path] = max(threads.get(path, 0), count)
        linked = preview.linked_files()
        if not self._shares_files and _sysroot().startswith(_ELSEWHERE) and self._reachable(preview, linked):
            execute(f"set sysroot {self._root}")
        files = [(preview.path_at(file.dynamic), file) for file in linked]
        mapped = {(region.start, region.path) for region in preview.regions}
        # those that most threads are in first
        for path, file in sorted(files, key=lambda each: -threads.get(each[0], 0)):
            if path is None or (file.bias, path) not in mapped:
                continue
            if path not in threads and not _THREADS.search(os.path.basename(path)):
                continue
            place = self._place(file.name)
            if place is None or place in self._added:  # GDB can only take back one of a name
                continue
            if time.monotonic() < self._end and self._symbols.is_for_gdb(place):
                self._add(place, file.bias, path)
        self._read_lines(preview, addresses, {path: file.bias for path, file in files if path and not file.name})

    def _reachable(self, preview: Preview, linked: Sequence[LinkedFile]) -> bool:
        """Whether all libraries of a process in another mount namespace can be opened through its root directory.

        Then GDB can use one name for a library before and after it attaches. But a link with an absolute target leads
        out of that directory, to another file or to none.
        """
        for file in linked:
            region = preview.region_at(file.dynamic)
            if file.name.startswith("/") and region is not None:
                mapped = f"/proc/{self._pid}/map_files/{region.start:x}-{region.end:x}"
                try:
                    if not os.path.samefile(f"{self._root}{file.name}", mapped):
                        return False
                except (OSError, ValueError):
                    return False
        return True

    def _place(self, name: str) -> str | None:
        """The name by which GDB will read a library; None if that is not certain, or is another file here."""
        if not name.startswith("/") or not name.isprintable():
            return None
        sysroot = _sysroot()
        if sysroot.startswith(_ELSEWHERE) and not self._shares_files:
            return None  # GDB will call it "target:NAME", which is not possible before it has attached
        place = name if sysroot.startswith(_ELSEWHERE) else f"{sysroot.rstrip('/')}{name}"
        try:
            return place if os.path.samefile(place, f"{self._root}{name}") else None
        except (OSError, ValueError):
            return None

    def _add(self, place: str, bias: int, path: str) -> None:
        try:
            # with "target:" in front GDB keeps the name; else it would resolve links in it, and read the file once more
            # by the name that the dynamic linker has (GDB 13.1 gdb/symfile.c, symfile_bfd_open)
            execute(f"add-symbol-file {quoted(_ELSEWHERE + place)} -o {bias:#x}")
        except gdb.error:
            return
        self._added[place] = (bias, path)

    def _read_lines(self, preview: Preview, addresses: dict[int, int], program: dict[str, int]) -> None:
        """Have GDB read the line numbers of functions; the executable is still where it was linked."""
        added = {path for _, path in self._added.values()}
        for address in sorted(addresses, key=lambda address: -addresses[address])[:_MAX_FUNCTIONS]:
            path = preview.path_at(address)
            if path in added or path in program:
                if time.monotonic() > self._end:
                    return
                try:
                    gdb.find_pc_line(address - program.get(path or "", 0))
                except (gdb.error, RuntimeError, OverflowError):
                    continue

    def check(self) -> None:
        """Take back what is not, or no longer, where it was read to be; the process must have been stopped."""
        if self._added:
            now = {(region.start, region.path) for region in Proc(self._pid).regions()}
            for place, mapped in self._added.items():
                if mapped not in now:
                    execute(f"remove-symbol-file {quoted(place)}")


def _sysroot() -> str:
    return str(gdb.parameter("sysroot") or "")


def _mount_namespace(process: int | str) -> str | None:
    """The mount namespace of a process; GDB reads files from another namespace by different names."""
    try:
        return os.readlink(f"/proc/{process}/ns/mnt")
    except OSError:
        return None
