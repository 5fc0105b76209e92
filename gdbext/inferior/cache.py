"""A page cache over a `Memory`: each page of the target is read once per stop.

Decoders read a few pages many times, and the cost of a read through the debugger hardly depends on its size.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from gdbext.errors import MemoryUnreadable
from gdbext.inferior.protocol import Memory

if TYPE_CHECKING:
    from gdbext.inferior.budget import Budget

PAGE = 4096
#: Reads of more than this many pages bypass the cache.
BYPASS_PAGES = 64
#: The largest number of pages kept; a report on thousands of threads needs far fewer.
_MAX_PAGES = 65536
#: Stands for a page that is not in the cache; None stands for one that is not readable.
MISSING = b"missing"


class CachedMemory:
    """Reads whole pages of `memory` and keeps them; unreadable pages are remembered too.

    Each read of `memory` draws from the `budget`, if there is one. Reads of known pages do not, which keeps them cheap.
    """

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self.budget: Budget | None = None
        self._pages: dict[int, bytes | None] = {}

    def read(self, address: int, size: int) -> bytes:
        """Read exactly `size` bytes.

        :raises MemoryUnreadable: not all of them can be read, or the range is impossible.
        """
        start = address & (PAGE - 1)
        if 0 <= size <= PAGE - start:  # the usual case
            page = self._pages.get(address - start)
            if page is None:
                page = self._page(address - start, address, size)
            return page[start:start + size]
        if size < 0 or address < 0 or address + size > 1 << 64:
            raise MemoryUnreadable(address, size)
        first, last = address - start, (address + size - 1) & ~(PAGE - 1)
        if (last - first) // PAGE >= BYPASS_PAGES:
            return self._fetch(address, size)
        self.prefetch(first, last + PAGE - first)
        data = b"".join([self._page(at, address, size) for at in range(first, last + 1, PAGE)])
        return data[start:start + size]

    def unpack(self, form: struct.Struct, address: int) -> tuple[int, ...]:
        """Unpack a structure, without a copy if it is in one page.

        :raises MemoryUnreadable: not all of it can be read.
        """
        start = address & (PAGE - 1)
        page = self._pages.get(address - start)
        if page is not None and start + form.size <= PAGE:
            return form.unpack_from(page, start)
        return form.unpack(self.read(address, form.size))

    def prefetch(self, address: int, size: int) -> None:
        """Fetch the missing pages of a range in one read; errors are ignored."""
        first = address & ~(PAGE - 1)
        count = (address + size - first + PAGE - 1) // PAGE
        if not 1 < count <= BYPASS_PAGES or first < 0:
            return
        wanted = [first + i * PAGE for i in range(count)]
        missing = [at for at in wanted if at not in self._pages]
        if len(missing) < 2:
            return
        try:
            data = self._fetch(missing[0], missing[-1] + PAGE - missing[0])
        except MemoryUnreadable:
            return
        self._make_room(count)
        for at in missing:
            self._pages[at] = data[at - missing[0]:at - missing[0] + PAGE]

    def _page(self, at: int, address: int, size: int) -> bytes:
        # another thread may forget all pages at any time
        page = self._pages.get(at, MISSING)
        if page is MISSING:
            self._make_room(1)
            try:
                page = self._fetch(at, PAGE) if at >= 0 else None
            except MemoryUnreadable:
                page = None
            self._pages[at] = page
        if page is not None:
            return page
        # in a core, a section may end within a page
        low, high = max(at, address), min(at + PAGE, address + size)
        data = self._fetch(low, high - low)
        return bytes(low - at) + data + bytes(at + PAGE - high)

    def _fetch(self, address: int, size: int) -> bytes:
        if self.budget is not None:
            self.budget.draw(address, size)
        return self._memory.read(address, size)

    def forget(self) -> None:
        """Forget all pages."""
        self._pages.clear()

    def _make_room(self, count: int) -> None:
        if len(self._pages) + count > _MAX_PAGES:
            self._pages.clear()


def read_u32(memory: Memory, address: int) -> int:
    """Read a ``uint32_t``."""
    return int.from_bytes(memory.read(address, 4), "little")


def read_u64(memory: Memory, address: int) -> int:
    """Read a ``uint64_t``."""
    return int.from_bytes(memory.read(address, 8), "little")


def read_available(memory: Memory, address: int, size: int) -> bytes:
    """Read at most `size` bytes, up to the first gap.

    This is for stacks: their end is a guess, and a core may have only a part.
    """
    try:
        return memory.read(address, size)
    except MemoryUnreadable:
        pass
    data = b""
    while len(data) < size:
        piece = min(PAGE - (address + len(data)) % PAGE, size - len(data))
        try:
            data += memory.read(address + len(data), piece)
        except MemoryUnreadable:
            break
    return data


def read_cstring(memory: Memory, address: int, limit: int = 256) -> bytes:
    """Read a C string of at most `limit` bytes, without its NUL.

    :raises MemoryUnreadable: not all bytes up to the NUL or the limit are readable.
    """
    data = b""
    while len(data) < limit:
        step = min(64 - (address + len(data)) % 64, limit - len(data))
        piece = memory.read(address + len(data), step)
        end = piece.find(b"\0")
        if end >= 0:
            return data + piece[:end]
        data += piece
    return data


def cached(memory: Memory) -> CachedMemory:
    """The memory itself if it is a page cache, or else a page cache over it."""
    return memory if isinstance(memory, CachedMemory) else CachedMemory(memory)
