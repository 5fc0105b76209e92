"""The lock of a `FILE`, which records the thread that holds it, and the list of all open `FILE`s."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gdbext.elf.dynamic import find_dynamic_symbol
from gdbext.errors import MemoryUnreadable
from gdbext.glibc.version import LIBC
from gdbext.inferior.cache import read_u64
from gdbext.inferior.protocol import Memory, Module
from gdbext.layout.table import Layouts
from gdbext.record import record

#: The largest number of files that are read.
_MAX_FILES = 65536


@record
class FileLock:
    """A decoded ``_IO_lock_t``.

    `word` is the futex word, 0 while the lock is free. `owner` is the holder's ``struct pthread *``, or None.
    """

    address: int
    word: int
    owner: int | None


def decode_file_lock(memory: Memory, layouts: Layouts, address: int) -> FileLock:
    """Decode the lock of a ``FILE``, or another recursive lock of the C library: for the list of files, for ``exit``.

    Source: glibc 2.36 sysdeps/nptl/stdio-lock.h. The depth is not decoded: since glibc 2.41 it counts from 0.

    :param address: ``_IO_lock_t *`` in the target.
    :raises MemoryUnreadable: the lock is not mapped, or not in the core.
    """
    word, owner = layouts["_IO_lock_t"].reader("lock", "owner")(memory, address)
    return FileLock(address, word & 0xFFFFFFFF, owner if owner and word else None)


def iter_files(memory: Memory, layouts: Layouts, modules: Sequence[Module]) -> Iterator[tuple[int, int, int]]:
    """Iterate over the open ``FILE``s with a lock: (``FILE *``, ``_IO_lock_t *``, file descriptor or -1).

    Source: glibc 2.36 libio/genops.c, `_IO_list_all`. Stops early if the list is damaged or being changed.

    :param modules: all modules; the C library exports the head of the list.
    """
    library = next((module for module in modules if LIBC.match(module.name)), None)
    head = find_dynamic_symbol(memory, library, "_IO_list_all") if library is not None else None
    if head is None:
        return
    read = layouts["struct _IO_FILE"].reader("_chain", "_lock", "_fileno")
    seen: set[int] = set()
    try:
        file = read_u64(memory, head.address)
        while file and file not in seen and len(seen) < _MAX_FILES:
            seen.add(file)
            chain, lock, descriptor = read(memory, file)
            if lock:
                yield file, lock, descriptor
            file = chain
    except MemoryUnreadable:
        return
