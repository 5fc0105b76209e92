"""The header of a block of malloc that was found damaged, and the text before it that was probably written too far.

C structure: ``struct malloc_chunk``, of which `mchunk_size` is before the block. Source: glibc 2.36 malloc/malloc.c.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterator

from gdbext.errors import if_unreadable
from gdbext.inferior.address_space import AddressSpace
from gdbext.inferior.cache import read_available, read_u64
from gdbext.inferior.protocol import Memory
from gdbext.record import record

#: The bits of a size that are flags; the one that no size has; a size that no block has.
_FLAGS, _UNUSED, _LARGEST = 7, 8, 1 << 40
#: How many blocks, and how many bytes of memory, are searched; how many bytes of a block are shown.
_MAX_BLOCKS, _MAX_SEARCHED, _SHOWN = 200_000, 64 << 20, 32
#: The size of a header, how many bytes before it are shown, and the shortest text that is.
_HEADER, _BEFORE, _SHORTEST = 16, 48, 8


@record
class DamagedHeader:
    """The address of the block, the size in its header, and the text that ends there, if there is one."""

    block: int
    size: int
    text: str | None


@record
class Block:
    """A block of malloc: its address, the number of its bytes, and the text that it begins with, if it does."""

    address: int
    size: int
    text: str | None


@if_unreadable(None)
def damaged_header(memory: Memory, block: int) -> DamagedHeader | None:
    """The damaged header of a block that was to be freed, or of the next one; None if both may be valid.

    :param block: what was passed to ``free()``.
    """
    size = read_u64(memory, block - 8)
    if not _is_impossible(size):
        block += size & ~_FLAGS
        size = read_u64(memory, block - 8)
        if not _is_impossible(size):
            return None
    data = read_available(memory, block - _HEADER - _BEFORE, _BEFORE + _HEADER)
    return DamagedHeader(block, size, _text(bytes(reversed(data)), backwards=True))


def _text(data: bytes, backwards: bool = False) -> str | None:
    """The printable characters at the beginning of some bytes, if they are enough."""
    text = "".join(map(chr, itertools.takewhile(lambda byte: 32 <= byte < 127, data)))
    return (text[::-1] if backwards else text) if len(text) >= _SHORTEST else None


def block_before(memory: Memory, heap: int, block: int) -> Block | None:
    """The block that ends where the header of another one begins; None if the headers before that are damaged too.

    :param heap: the start of the heap, where its first header is.
    :raises MemoryUnreadable: a part of the heap cannot be read.
    """
    at = heap
    for _ in range(_MAX_BLOCKS):
        size = read_u64(memory, at + 8)
        following = at + (size & ~_FLAGS)
        if _is_impossible(size) or following > block - _HEADER:
            return None
        if following == block - _HEADER:
            # a block also has the first word of the next header
            return Block(at + _HEADER, (size & ~_FLAGS) - 8, _text(read_available(memory, at + _HEADER, _SHOWN)))
        at = following
    return None


def pointers_to(memory: Memory, space: AddressSpace, address: int) -> Iterator[int]:
    """The places in writable memory that contain an address, in stacks and the data of files before others."""
    wanted, left = struct.pack("<Q", address), _MAX_SEARCHED
    regions = [region for region in space if region.allows("w")]
    for region in sorted(regions, key=lambda region: (not region.path, region.end - region.start)):
        size = min(region.end - region.start, left)
        left -= size
        data = read_available(memory, region.start, size)
        at = data.find(wanted)
        while at >= 0:
            if at % 8 == 0:
                yield region.start + at
            at = data.find(wanted, at + 1)


def _is_impossible(size: int) -> bool:
    return not size & ~_FLAGS or bool(size & _UNUSED) or size >= _LARGEST
