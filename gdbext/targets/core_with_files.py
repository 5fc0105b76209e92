"""Memory of a process that is read from its core and the files that it had mapped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gdbext.elf.core_contents import CoreContents
from gdbext.elf.headers import Read
from gdbext.errors import MemoryUnreadable
from gdbext.inferior.address_space import AddressSpace, Region

#: The largest size of one read, in bytes.
_MOST = 1 << 28


class CoreWithFiles:
    """The memory in a core, and where the core has none, in the mapped files.

    :param core: the memory in the core.
    :param regions: the address space.
    :param files: opened files by their paths in the regions; only files that the process really had mapped.
    :param is_truncated: whether the core is truncated. Then writable mappings are unreadable in the missing part: the
        file has the variables' initial values.
    """

    def __init__(self, core: CoreContents, regions: Sequence[Region], files: Mapping[str, Read],
                 is_truncated: bool) -> None:
        self._core = core
        self._space = AddressSpace(regions)
        self._files = files
        self._is_truncated = is_truncated

    def read(self, address: int, size: int) -> bytes:
        """Read exactly `size` bytes.

        :raises MemoryUnreadable: not all of them are in the core or in a file.
        """
        if not 0 <= size <= _MOST or address < 0:
            raise MemoryUnreadable(address, size)
        pieces, at, end = [], address, address + size
        while at < end:
            piece = self._core.read(at, end - at) or self._from_file(at, end - at)
            if not piece:
                raise MemoryUnreadable(address, size)
            pieces.append(piece)
            at += len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _from_file(self, address: int, size: int) -> bytes:
        region = self._space.find(address)
        read = self._files.get(region.path or "") if region is not None else None
        if region is None or read is None or self._is_truncated and region.allows("w") is not False:
            return b""
        return read(region.offset + address - region.start, min(size, region.end - address))
