"""The dynamic linker's locks: recursive mutexes in `_rtld_global`, which record their owners like any other."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

from gdbext.elf.dynamic import find_dynamic_symbol
from gdbext.errors import MemoryUnreadable
from gdbext.inferior.protocol import Memory, Module
from gdbext.layout.table import Layouts, Struct

_LINKER = re.compile(r"^ld-(?:linux[^/]*\.so\.\d+|2\.\d+\.so)$")
#: In memory order; they are adjacent. The last one exists since glibc 2.35.
_LOCKS = ("_dl_load_lock", "_dl_load_write_lock", "_dl_load_tls_lock")
#: `_rtld_global` is 2 to 5 KiB large.
_MAX_SIZE = 1 << 16
_RECURSIVE = 1  # PTHREAD_MUTEX_RECURSIVE_NP


def find_linker_locks(memory: Memory, layouts: Layouts, modules: Sequence[Module]) -> dict[int, str]:
    """Find the dynamic linker's locks: address of each ``pthread_mutex_t`` -> its name, such as ``_dl_load_lock``.

    Source: glibc 2.36 sysdeps/generic/ldsodefs.h. The structure around them changes with almost every release and with
    distributions' patches. If its size differs from the table, the locks are searched for: no other recursive mutexes
    in it are adjacent.

    :return: empty for a program without a dynamic linker, or if the locks are not found.
    """
    linker = next((module for module in modules if _LINKER.match(module.name)), None)
    symbol = find_dynamic_symbol(memory, linker, "_rtld_global") if linker is not None else None
    if symbol is None or symbol.size > _MAX_SIZE:
        return {}
    try:
        data = memory.read(symbol.address, symbol.size)
    except MemoryUnreadable:
        return {}
    mutex, known = layouts["pthread_mutex_t"], layouts["struct rtld_global"]
    offsets = [known.offset(name) for name in _LOCKS if name in known]
    if known.size != len(data) or not all(_is_recursive_mutex(mutex, data, at) for at in offsets):
        offsets = _search(mutex, data)
    return {symbol.address + at: name for at, name in zip(offsets, _LOCKS)}


def _search(mutex: Struct, data: bytes) -> list[int]:
    for start in range(0, len(data) - 2 * mutex.size + 1, 8):
        places = (start, start + mutex.size, start + 2 * mutex.size)
        found = list(itertools.takewhile(lambda at: _is_recursive_mutex(mutex, data, at), places))
        if len(found) >= 2:
            return found
    return []


def _is_recursive_mutex(mutex: Struct, data: bytes, at: int) -> bool:
    piece = data[at:at + mutex.size]
    if len(piece) < mutex.size:
        return False
    lock, owner, kind, links = (mutex[name].extract(piece) for name in ("__lock", "__owner", "__kind", "__list"))
    return kind == _RECURSIVE and lock in (0, 1, 2) and owner >= 0 and links == 0
