"""The only parser of a core's headers and notes; `core_contents` reads the memory that they describe.

They have the address space with permissions, the number of missing bytes, and the registers of all threads. Nothing
else is read, so the cost does not grow with the core. C structures:
the notes ``NT_PRSTATUS`` and ``NT_PRPSINFO`` (Linux 6.1 include/linux/elfcore.h), and ``NT_SIGINFO``, a ``siginfo_t``.
"""

from __future__ import annotations

import os
import stat
import struct
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType

from gdbext.elf.headers import (
    ET_CORE,
    PF_R,
    PF_W,
    PF_X,
    PT_LOAD,
    PT_NOTE,
    Read,
    iter_entries,
    iter_segments,
    read_header,
)
from gdbext.elf.link_map import TAG_AND_VALUE
from gdbext.elf.notes import MAX_NOTES, NT_FILE, iter_notes, mapped_files
from gdbext.errors import CorruptStructure
from gdbext.inferior.address_space import Region
from gdbext.inferior.signals import SIGINFO_SIZE
from gdbext.record import record

_NT_PRSTATUS, _NT_PRPSINFO, _NT_AUXV, _NT_SIGINFO = 1, 3, 6, 0x53494749
#: A note of the owner LINUX: the thread pointer, where it is not among the registers (arm64).
_NT_ARM_TLS = 0x401
#: The beginning of struct elf_prstatus on 64-bit machines, up to pr_pid; the registers follow.
_PRSTATUS = struct.Struct("<32xi")
#: struct elf_prpsinfo on 64-bit machines: pr_uid, pr_gid and pr_pid after state and flags, and pr_psargs at the end.
_PRPSINFO = struct.Struct("<16xIIi28x80s")
_PERMISSIONS = ((PF_R, "r"), (PF_W, "w"), (PF_X, "x"))


@record
class CoreThread:
    """A thread of a core: its LWP id, its ``struct elf_prstatus``, and its ``siginfo_t`` if the core has one.

    `area` has the thread pointer if the registers do not have it.
    """

    lwp: int
    state: bytes
    siginfo: bytes | None = None
    area: bytes = b""


@record
class CoreFile:
    """A core's address space, and the registers of its threads.

    `size` is the file's size, `whole` the size with all segments. `threads` has all threads in the order of the notes:
    the first one received the signal. `by_lwp` has the thread of each LWP, with registers of the ELF `machine`; an LWP
    id that two threads share is left out. `user` and `group` are the process's; `user` is None if the core has no
    user or several. `owner` is the user that owns the file. `pid` is None if the core has none or several.

    `loads` has (address, bytes in the file, file offset) of each segment by address, `mapped` (start, end, file offset,
    path) of each mapped file, `auxiliary` the auxiliary vector: tag -> value. `damaged_files`: the list of mapped files
    cannot be read. `notes_end` is the file offset after the notes. `lacks_headers`: program headers are cut off.
    """

    regions: tuple[Region, ...]
    size: int
    whole: int
    machine: int
    by_lwp: Mapping[int, CoreThread]
    user: int | None = None
    group: int = 0
    owner: int = 0
    arguments: str = ""
    threads: tuple[CoreThread, ...] = ()
    pid: int | None = None
    loads: tuple[tuple[int, int, int], ...] = ()
    mapped: tuple[tuple[int, int, int, str], ...] = ()
    auxiliary: Mapping[int, int] = MappingProxyType({})
    damaged_files: bool = False
    notes_end: int = 0
    lacks_headers: bool = False

    @property
    def missing(self) -> int:
        """The number of bytes that are cut off at the end."""
        return max(self.whole - self.size, 0)


def read_core_file(path: str) -> CoreFile | None:
    """Read the headers of a core; None if it is not a regular file, or not a 64-bit little-endian core."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        with os.fdopen(handle, "rb", buffering=0):
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode):
                return None
            return parse_core(lambda offset, size: os.pread(handle, size, offset), status.st_size, status.st_uid)
    except (CorruptStructure, OSError, OverflowError, ValueError, MemoryError):
        return None


def parse_core(read: Read, size: int, owner: int = 0) -> CoreFile:
    """Parse the headers and notes of an uncompressed core.

    :param size: of the file, in bytes.
    :raises CorruptStructure: it is not a core, or its headers cannot be read.
    """
    header = read_header(read)
    if header.kind != ET_CORE:
        raise CorruptStructure(0, "it is not a core")
    whole, notes_end = header.segments_end, 0
    segments = list(iter_segments(read, header.segments_offset, header.segment_count))
    loads: list[tuple[int, int, int, int]] = []
    auxiliary: dict[int, int] = {}
    damaged_files = False
    files: list[tuple[int, int, int, str]] = []
    threads: list[CoreThread] = []
    processes: set[tuple[int, int, int, bytes]] = set()
    left = MAX_NOTES
    for segment in segments:
        start, end = segment.address, segment.address + segment.size
        whole = max(whole, segment.offset + segment.file_size)
        if segment.kind == PT_NOTE:
            notes_end = max(notes_end, segment.offset + segment.file_size)
        if segment.kind == PT_LOAD and end <= 1 << 64:
            kept = max(min(segment.file_size, segment.size, size - segment.offset), 0)
            loads.append((start, end, segment.flags, start + kept))
        elif segment.kind == PT_NOTE and left > 0:
            notes = read(segment.offset, min(segment.file_size, left))
            left -= len(notes) + 1  # empty segments count too: there may be many
            mapped = list(mapped_files(notes))
            files += mapped
            for name, kind, note in iter_notes(notes):
                damaged_files |= kind == NT_FILE and not mapped
                if (name, kind, len(note)) == (b"CORE\0", _NT_PRPSINFO, _PRPSINFO.size):
                    processes.add(_PRPSINFO.unpack(note))
                elif (name, kind) == (b"CORE\0", _NT_AUXV):
                    auxiliary.update(iter_entries(TAG_AND_VALUE, note))
            threads += _threads(notes)
    user, group, pid, arguments = processes.pop() if len(processes) == 1 else (None, 0, None, b"")
    times = Counter(thread.lwp for thread in threads)
    by_lwp = {thread.lwp: thread for thread in threads if times[thread.lwp] == 1}
    return CoreFile(tuple(_regions(loads, files)), size, whole, header.machine, by_lwp, user, group, owner,
                    arguments.partition(b"\0")[0].decode("utf-8", "backslashreplace").strip(), tuple(threads), pid,
                    tuple(sorted((segment.address, segment.file_size, segment.offset) for segment in segments
                                 if segment.kind == PT_LOAD)),
                    tuple(sorted(files)), auxiliary, damaged_files, notes_end, len(segments) < header.segment_count)


def _threads(notes: bytes) -> Iterator[CoreThread]:
    """Iterate over the threads; the notes of one follow its NT_PRSTATUS (Linux 6.1 fs/binfmt_elf.c)."""
    found: CoreThread | None = None
    for name, kind, note in iter_notes(notes):
        if name == b"CORE\0" and kind == _NT_PRSTATUS and len(note) > _PRSTATUS.size:
            if found is not None:
                yield found
            found = CoreThread(_PRSTATUS.unpack_from(note)[0], note)
        elif found is None:
            continue
        elif name == b"CORE\0" and kind == _NT_SIGINFO and len(note) == SIGINFO_SIZE:
            found = replace(found, siginfo=note)
        elif name == b"LINUX\0" and kind == _NT_ARM_TLS:
            found = replace(found, area=note)
    if found is not None:
        yield found


def _regions(loads: list[tuple[int, int, int, int]], files: list[tuple[int, int, int, str]]) -> Iterator[Region]:
    """Combine segments with the files that are mapped there; a mapping that no segment covers is listed too."""
    by_start = {start: (end, offset, path) for start, end, offset, path in files}
    for start, end, flags, kept in sorted(loads):
        permissions = "".join(letter for bit, letter in _PERMISSIONS if flags & bit)
        _, offset, path = by_start.pop(start, (0, 0, None))
        yield Region(start, end, permissions, path, offset, kept=kept)
    for start, (end, offset, path) in sorted(by_start.items()):
        yield Region(start, end, None, path, offset, kept=start)
