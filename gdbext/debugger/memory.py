"""Memory of GDB's inferior; that of a core only where the core or a file has it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import gdb

from gdbext.debugger.console import TARGET_FILES, sysroot
from gdbext.errors import MemoryUnreadable
from gdbext.inferior.address_space import AddressSpace, Region
from gdbext.inferior.protocol import Memory
from gdbext.remembered import remembered


class GdbMemory:
    """Memory of the selected inferior."""

    def __init__(self, inferior: gdb.Inferior) -> None:
        self._read = inferior.read_memory

    def read(self, address: int, size: int) -> bytes:  # noqa: D102  # see `Memory`
        try:
            return bytes(self._read(address, size))
        except (gdb.error, OverflowError, ValueError, TypeError, MemoryError):
            raise MemoryUnreadable(address, size) from None


class GuardedCoreMemory:
    """Memory of a core, unreadable where neither the core nor a file has data; GDB reads zeros there.

    :param is_loaded: whether an address is in a file that GDB has loaded.
    :param is_truncated: whether the core is truncated. Then writable mappings are unreadable in the missing part: the
        file has the variables' initial values.
    """

    def __init__(self, memory: Memory, regions: Sequence[Region], is_loaded: Callable[[int], bool],
                 is_truncated: bool) -> None:
        self._memory = memory
        self._is_truncated = is_truncated
        self._space = AddressSpace(regions)
        self._is_loaded = is_loaded

    def read(self, address: int, size: int) -> bytes:  # noqa: D102  # see `Memory`
        region = self._space.find(address)
        if region is not None and region.kept is not None and address + size > region.kept:
            was_written = self._is_truncated and region.allows("w")
            if was_written or not self._has_file(region.path) and not self._is_loaded(address):
                raise MemoryUnreadable(address, size)
        return self._memory.read(address, size)

    @remembered
    def _has_file(self, path: str | None) -> bool:
        return path is not None and os.path.isfile(host_path(path))


def host_path(path: str) -> str:
    """Return where GDB finds a file of the target: below the setting `sysroot`."""
    return path if sysroot() == TARGET_FILES else f"{sysroot()}{path}"
