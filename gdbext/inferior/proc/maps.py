"""The mappings of a process (/proc/PID/maps), and its memory (/proc/PID/mem).

Source: Linux 6.1 fs/proc/task_mmu.c, show_map_vma.
"""

from __future__ import annotations

import os
import re

from gdbext.errors import MemoryUnreadable, NoTarget
from gdbext.inferior.address_space import Region
from gdbext.inferior.proc.files import bounded, read_text

#: The bytes of a page's entry in /proc/PID/pagemap.
_PAGE_ENTRY = 8
#: Whether a page is used, by the last byte of its entry: its highest bits say that it is in memory, or swapped out.
_IS_USED, _USED = bytes(int(bool(byte & 0xC0)) for byte in range(256)), re.compile(b"\1+")
#: The largest size of one read, in bytes.
_MOST = 1 << 28
# "7f36fd91e000-7f36fd922000 r--p 00000000 fe:01 1041    /usr/lib/libm.so.6"; the last letter of the permissions is "s"
# for shared memory
_MAPPING = re.compile(r"([0-9a-f]+)-([0-9a-f]+) ([r-][w-][x-])([ps]) ([0-9a-f]+) (\S+) (\d+) *(.*)$")


def read_maps(task: int, root: str = "/proc") -> tuple[Region, ...] | None:
    """The mappings of a process by ascending address; None if they may not be read, or it has ended."""
    text = read_text(f"{root}/{task}/maps")
    return None if text is None else parse_maps(text)


def parse_maps(text: str) -> tuple[Region, ...]:
    """The mappings that the text of /proc/PID/maps lists."""
    # a name may contain what else separates lines, but for a newline, which the kernel escapes
    return tuple([_region(match) for match in map(_MAPPING.match, text.split("\n")) if match])


def _region(match: re.Match[str]) -> Region:
    start, end, permissions, kind, offset, device, inode, path = match.groups()
    # the kernel escapes a newline and nothing else
    path = bounded(path.replace("\\012", "\n"))
    return Region(int(start, 16), int(end, 16), permissions.replace("-", ""), path or None, int(offset, 16),
                  kind == "s", None, (device, int(inode)))


def used_parts(task: int, region: Region, root: str = "/proc") -> list[tuple[int, int]]:
    """The parts of a mapping, by begin and end, whose pages are in memory or swapped out; all of it if not known.

    Programs reserve much more than they use. A page that was never touched has no data, and would get some if read.

    Source: Linux 6.1 Documentation/admin-guide/mm/pagemap.rst.
    """
    page = os.sysconf("SC_PAGE_SIZE")
    wanted = (region.end - region.start) // page * _PAGE_ENTRY
    try:
        with open(f"{root}/{task}/pagemap", "rb") as file:
            file.seek(region.start // page * _PAGE_ENTRY)
            entries = file.read(wanted) if wanted <= _MOST else b""
    except OSError:
        entries = b""
    if len(entries) < wanted:
        return [(region.start, region.end)]
    used = entries[_PAGE_ENTRY - 1::_PAGE_ENTRY].translate(_IS_USED)
    return [(region.start + run.start() * page, region.start + run.end() * page) for run in _USED.finditer(used)]


class ProcessMemory:
    """The memory of a process.

    The file stays open, so that it never shows another process that gets the same PID.

    :param root: the path of /proc.
    :raises NoTarget: the process does not exist.
    :raises PermissionError: we may not read its memory.
    """

    def __init__(self, pid: int, root: str = "/proc") -> None:
        try:
            self._file = os.open(f"{root}/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
        except (FileNotFoundError, ProcessLookupError):
            raise NoTarget(f"there is no process {pid}") from None

    def close(self) -> None:
        """Close the file; then the memory can no longer be read."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def read_some(self, address: int, size: int) -> bytes:
        """Read at most `size` bytes, up to the first that cannot be read."""
        try:
            return os.pread(self._file, size, address) if 0 <= size <= _MOST else b""
        except (OSError, OverflowError, ValueError):  # unmapped, or beyond the largest offset
            return b""

    def read(self, address: int, size: int) -> bytes:
        """Read exactly `size` bytes.

        :raises MemoryUnreadable: not all of them can be read.
        """
        data = self.read_some(address, size)
        if len(data) != size:
            raise MemoryUnreadable(address, size)
        return data


def read_memory(pid: int, address: int, size: int, root: str = "/proc", some: bool = False) -> bytes | None:
    """Memory of a process; None if it cannot be read.

    :param size: in bytes; with `some`, fewer bytes are returned where not all can be read.
    """
    try:
        memory = ProcessMemory(pid, root)
    except (OSError, NoTarget):
        return None
    data = memory.read_some(address, size)
    memory.close()
    return data if len(data) == size or some and data else None
