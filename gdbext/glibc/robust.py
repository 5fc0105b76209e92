"""The robust mutexes that a thread holds: they are on a list of its own, for the kernel to find when it ends."""

from __future__ import annotations

from collections.abc import Iterator

from gdbext.errors import CorruptStructure
from gdbext.inferior.cache import read_u64
from gdbext.inferior.protocol import Memory
from gdbext.layout.table import Layouts

#: The kernel itself follows no more links (Linux include/uapi/linux/futex.h, ROBUST_LIST_LIMIT).
_MAX_MUTEXES = 2048
#: Lowest bit of a link: the mutex is priority-inheriting.
_PI = 1


def iter_robust_mutexes(memory: Memory, layouts: Layouts, pthread: int) -> Iterator[int]:
    """Addresses of the robust mutexes that a thread holds, the one taken last first.

    Source: Linux kernel/futex (exit_robust_list), glibc 2.36 nptl/descr.h. A link is the address of the mutex's
    ``__list.__next``, and the list's head tells how far from there the lock word is; that is the mutex's first
    member.

    :param pthread: ``struct pthread *`` in the target.
    :raises MemoryUnreadable: a part of the list is not mapped, or not in the core.
    :raises CorruptStructure: the list makes no sense, or does not end.
    """
    head = pthread + layouts["struct pthread"].offset("robust_head")
    known = layouts["struct robust_list_head"]
    first = head + known.offset("list")
    link = read_u64(memory, first)
    if link in (first, 0):  # 0: the thread has not told the kernel of its list
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
