"""Reads the symbols that the snapshot of a process is likely to need, before the process is stopped.

When GDB attaches, it always reads the C library's symbols, and `debugger.lazy` those of the libraries on stacks; that
takes longer than the rest of the pause. GDB does not read a library a second time if the library was added before,
with the name and the address that the dynamic linker uses. The choice of libraries is a guess (`debugger.preview`): a
wrong one costs time before the pause, a missing one prolongs it.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence

import gdb

from gdbext.debugger.console import TARGET_FILES, execute, quoted, sysroot
from gdbext.debugger.lazy import LazySymbols
from gdbext.debugger.preview import Preview
from gdbext.elf.link_map import LinkedFile
from gdbext.inferior.proc.process import Proc

#: After so many seconds no further library or function is begun.
_SECONDS = 1.0
#: For how many functions GDB reads line numbers.
_MAX_FUNCTIONS = 200
#: The libraries that GDB reads in spite of `set auto-solib-add off` (GDB 13.1 gdb/solib.c, libpthread_name_p).
_THREADS = re.compile(r"^libc\.|libpthread")


class Prefetch:
    """The libraries of a process that GDB reads before it attaches.

    Nothing is read if GDB has no executable: it finds the files of the process when it has entered its mount namespace.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._end = time.monotonic() + _SECONDS
        self._symbols = LazySymbols(None, True)
        self._root = f"/proc/{pid}/root"
        self._shares_files = _mount_namespace(pid) == _mount_namespace("self")
        #: By the name given to GDB: the address and path of the mapping.
        self._added: dict[str, tuple[int, str]] = {}

    def read(self) -> None:
        """Have GDB read the symbols of libraries that are probably on stacks."""
        if not gdb.selected_inferior().progspace.filename:
            return
        preview = Preview(self._pid)
        addresses = preview.code_addresses()
        threads: dict[str | None, int] = {}
        for address, count in addresses.items():
            path = preview.path_at(address)
            threads[path] = max(threads.get(path, 0), count)
        linked = preview.linked_files()
        if not self._shares_files and sysroot().startswith(TARGET_FILES) and self._reachable(preview, linked):
            execute(f"set sysroot {self._root}")
        files = [(preview.path_at(file.dynamic), file) for file in linked]
        mapped = {(region.start, region.path) for region in preview.regions}
        # first the libraries that are on most stacks
        for path, file in sorted(files, key=lambda each: -threads.get(each[0], 0)):
            if path is None or (file.bias, path) not in mapped:
                continue
            if path not in threads and not _THREADS.search(os.path.basename(path)):
                continue
            place = self._place(file.name)
            if place is None or place in self._added:  # GDB can remove only one of each name
                continue
            if time.monotonic() < self._end and self._symbols.is_for_gdb(place):
                self._add(place, file.bias, path)
        self._read_lines(preview, addresses, {path: file.bias for path, file in files if path and not file.name})

    def _reachable(self, preview: Preview, linked: Sequence[LinkedFile]) -> bool:
        """Whether all libraries of a process in another mount namespace can be opened through its root directory.

        Then GDB can use the same name for a library before and after it attaches. A link with an absolute target leads
        out of that directory, to a different file or to none.
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
        """Return the name with which GDB will read a library; None if it is uncertain, or a different file here."""
        if not name.startswith("/") or not name.isprintable():
            return None
        root = sysroot()
        if root.startswith(TARGET_FILES) and not self._shares_files:
            return None  # GDB will call it "target:NAME", which it can open only after it has attached
        place = name if root.startswith(TARGET_FILES) else f"{root.rstrip('/')}{name}"
        try:
            return place if os.path.samefile(place, f"{self._root}{name}") else None
        except (OSError, ValueError):
            return None

    def _add(self, place: str, bias: int, path: str) -> None:
        try:
            # with "target:" GDB keeps the name; otherwise it would resolve links, and read the file a second time by
            # the dynamic linker's name (GDB 13.1 gdb/symfile.c, symfile_bfd_open)
            execute(f"add-symbol-file {quoted(TARGET_FILES + place)} -o {bias:#x}")
        except gdb.error:
            return
        self._added[place] = (bias, path)

    def _read_lines(self, preview: Preview, addresses: dict[int, int], program: dict[str, int]) -> None:
        """Have GDB read the line numbers of functions; the executable still has its link-time addresses."""
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
        """Remove the libraries that are not, or no longer, mapped where assumed; the process must be stopped."""
        if self._added:
            now = {(region.start, region.path) for region in Proc(self._pid).regions()}
            for place, mapped in self._added.items():
                if mapped not in now:
                    execute(f"remove-symbol-file {quoted(place)}")


def _mount_namespace(process: int | str) -> str | None:
    """Return the mount namespace of a process; GDB gives files in another namespace different names."""
    try:
        return os.readlink(f"/proc/{process}/ns/mnt")
    except OSError:
        return None
