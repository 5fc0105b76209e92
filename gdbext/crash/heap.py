"""The header of a block of malloc that was found damaged, and the text before it that was probably written too far.

C structure: ``struct malloc_chunk``, of which `mchunk_size` is before the block. Source: glibc 2.36 malloc/malloc.c.
"""

from __future__ import annotations

from gdbext.errors import if_unreadable
from gdbext.inferior.cache import read_available, read_u64
from gdbext.inferior.protocol import Memory
from gdbext.record import record

#: The bits of a size that are flags; the one that no size has; a size that no block has.
_FLAGS, _UNUSED, _LARGEST = 7, 8, 1 << 40
#: The size of a header, how many bytes before it are shown, and the shortest text that is.
_HEADER, _BEFORE, _SHORTEST = 16, 48, 8


@record
class DamagedHeader:
    """The address of the block, the size in its header, and the text that ends there, if there is one."""

    block: int
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
    text = ""
    for byte in reversed(data):
        if not 32 <= byte < 127:
            break
        text = chr(byte) + text
    return DamagedHeader(block, size, text if len(text) >= _SHORTEST else None)


def _is_impossible(size: int) -> bool:
    return not size & ~_FLAGS or bool(size & _UNUSED) or size >= _LARGEST
