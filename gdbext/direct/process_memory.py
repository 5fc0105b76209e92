"""The memory of a running process, read without a stop."""

from __future__ import annotations

import os

from gdbext.errors import MemoryUnreadable, NoTarget

#: Most bytes of one read.
_MOST_BYTES = 1 << 26


class ProcessMemory:
    """The memory of a process, by /proc/PID/mem.

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

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            os.close(self._file)

    def read(self, address: int, size: int) -> bytes:
        """Read exactly `size` bytes.

        :raises MemoryUnreadable: not all of them can be read.
        """
        try:
            data = os.pread(self._file, size, address) if 0 <= size <= _MOST_BYTES else b""
        except (OSError, OverflowError, ValueError):  # unmapped, or beyond the largest offset
            data = b""
        if len(data) != size:
            raise MemoryUnreadable(address, size)
        return data
