"""Thread-local memory of a thread, without symbols: the blocks that the dynamic linker has allocated for modules.

Source: glibc 2.36 sysdeps/x86_64/nptl/tls.h and sysdeps/aarch64/nptl/tls.h (``tcbhead_t``), sysdeps/generic/dl-dtv.h
(``dtv_t``).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from gdbext import arch
from gdbext.errors import if_unreadable
from gdbext.inferior.cache import read_available
from gdbext.inferior.protocol import Memory

#: Most modules with thread-local memory.
_MAX_MODULES = 1_024
_TWO_WORDS = struct.Struct("<2Q")


@if_unreadable(())
def first_words(memory: Memory, machine: str, thread_pointer: int) -> Sequence[int]:
    """The first two words (``uintptr_t``) of the thread-local memory of each module.

    :return: the words of all modules, one after the other; empty if they cannot be read.
    """
    first, second = _TWO_WORDS.unpack(memory.read(thread_pointer, _TWO_WORDS.size))
    table = first if arch.of(machine).DESCRIPTOR_IS_BELOW else second
    # the entry before the first has the number of entries, the first a generation
    count, _ = _TWO_WORDS.unpack(memory.read(table - _TWO_WORDS.size, _TWO_WORDS.size))
    entries = memory.read(table + _TWO_WORDS.size, _TWO_WORDS.size * min(count, _MAX_MODULES))
    words: list[int] = []
    for block, _ in _TWO_WORDS.iter_unpack(entries):
        if block and not block & 7:  # -1: not allocated yet
            words += _TWO_WORDS.unpack(read_available(memory, block, _TWO_WORDS.size).ljust(_TWO_WORDS.size, b"\0"))
    return words
