"""The robust mutexes that a thread holds, on a per-thread list that the kernel reads when the thread ends."""

from __future__ import annotations

from collections.abc import Iterator

from gdbext.errors import CorruptStructure
from gdbext.inferior.cache import read_u64
from gdbext.inferior.protocol import Memory
from gdbext.layout.table import Layouts

#: The kernel follows no more links than this (Linux include/uapi/linux/futex.h, ROBUST_LIST_LIMIT).
_MAX_MUTEXES = 2048
#: Lowest bit of a link: the mutex is priority-inheriting.
_PI = 1


def iter_robust_mutexes(memory: Memory, layouts: Layouts, pthread: int) -> Iterator[int]:
    """Iterate over the addresses of the robust mutexes that a thread holds, most recent first.

    Source: Linux kernel/futex (exit_robust_list), glibc 2.36 nptl/descr.h. A link is the address of the mutex's
    ``__list.__next``; the list's head has the distance from there to the lock word, the mutex's first member.

    :param pthread: ``struct pthread *`` in the target.
    :raises MemoryUnreadable: a part of the list is not mapped, or not in the core.
    :raises CorruptStructure: the list has an impossible distance, or does not end.
    """
    head = pthread + layouts["struct pthread"].offset("robust_head")
    known = layouts["struct robust_list_head"]
    first = head + known.offset("list")
    link = read_u64(memory, first)
    if link in (first, 0):  # 0: the list is not registered with the kernel
        return
    mutex = layouts["pthread_mutex_t"]
    distance, = known.reader("futex_offset")(memory, head)
    if not -mutex.size < distance < 0:
        raise CorruptStructure(head, f"the list of robust mutexes has its lock words {distance} bytes off")
    seen: set[int] = set()
    while link & ~_PI != first:
        link &= ~_PI
        if link in seen or len(seen) == _MAX_MUTEXES:
            raise CorruptStructure(head, "the list of robust mutexes does not end")
        seen.add(link)
        yield link + distance - mutex.offset("__lock")
        link = read_u64(memory, link)
