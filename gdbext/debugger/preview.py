"""Guesses from /proc, without a stop, which code the threads of a running process are executing.

A thread that sleeps in the kernel leaves its stack pointer in /proc/PID/task/TID/syscall; words on its stack that point
into code may be return addresses. Some are left over from calls that have ended, and everything may change at any
time, so nothing is reported from this. It only prepares a stop.
"""

from __future__ import annotations

import os
import struct
from collections import Counter

from gdbext.elf.headers import iter_entries
from gdbext.elf.link_map import TAG_AND_VALUE, LinkedFile, linked_files
from gdbext.inferior.address_space import AddressSpace, Region
from gdbext.inferior.proc.process import Proc
from gdbext.inferior.proc.threads import parse_system_call

#: How many threads are inspected, and how many bytes of each stack.
_MAX_THREADS, _MAX_STACK = 64, 16 << 10
#: The largest number of bytes read from one file of /proc.
_MAX_TEXT = 1 << 16


class Preview:
    """A running process; all answers are empty if the user may not read its files in /proc.

    :param root: where /proc is, for tests.
    """

    def __init__(self, pid: int, root: str = "/proc") -> None:
        self._folder = f"{root}/{pid}"
        self.regions = Proc(pid, root).regions()
        self._space = AddressSpace(self.regions)
        self.region_at = self._space.find

    def linked_files(self) -> list[LinkedFile]:
        """The files that the dynamic linker has loaded."""
        return list(linked_files(self._read, dict(iter_entries(TAG_AND_VALUE, self._text("auxv")))))

    def path_at(self, address: int) -> str | None:
        """The path of the file that is mapped at an address."""
        region = self._space.find(address)
        return region.path if region is not None and (region.path or "").startswith("/") else None

    def code_addresses(self) -> Counter[int]:
        """Addresses in the code of files that threads are at or may return to, with the number of threads."""
        found: Counter[int] = Counter()
        code = [region for region in self.regions if (region.path or "").startswith("/") and region.allows("x")]
        if not code:
            return found
        space, low, high = AddressSpace(code), code[0].start, code[-1].end
        try:
            tasks = sorted(os.listdir(f"{self._folder}/task"), key=int)[:_MAX_THREADS]
        except (OSError, ValueError):
            return found
        for task in tasks:
            call = parse_system_call(self._text(f"task/{task}/syscall").decode("utf-8", "replace"))
            if call is None:  # the thread runs, or has ended
                continue
            words = {call.program_counter, *self._stack(call.stack_pointer)}
            found.update(word for word in words if low <= word < high and space.find(word) is not None)
        return found

    def _stack(self, sp: int) -> tuple[int, ...]:
        region: Region | None = self._space.find(sp)
        if region is None:
            return ()
        data = self._read(sp, min(region.end - sp, _MAX_STACK))
        return struct.unpack(f"={len(data) // 8}Q", data[:len(data) // 8 * 8])

    def _read(self, address: int, size: int) -> bytes:
        try:
            with open(f"{self._folder}/mem", "rb", buffering=0) as file:
                return os.pread(file.fileno(), size, address)
        except (OSError, OverflowError, ValueError):
            return b""

    def _text(self, name: str) -> bytes:
        try:
            with open(f"{self._folder}/{name}", "rb") as file:
                return file.read(_MAX_TEXT)
        except OSError:
            return b""
