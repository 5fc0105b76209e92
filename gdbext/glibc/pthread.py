"""`struct pthread`, the thread descriptor: the thread's TID as its own process sees it.

On x86-64 the thread pointer (``fs_base``) is the address of the descriptor, and is what ``pthread_self`` returns.
"""

from __future__ import annotations

import enum
from collections.abc import Container

from gdbext.errors import CorruptStructure, GdbextError
from gdbext.inferior.protocol import Memory
from gdbext.layout.table import Layouts

_EXITING, _TERMINATED = 1 << 4, 1 << 5  # EXITING_BITMASK, TERMINATED_BITMASK of `cancelhandling`


class Descriptor(enum.Enum):
    """What became of the thread of a descriptor that is not a living thread's."""

    #: It has ended in this process.
    ENDED = "ended"
    #: It runs in the process that forked this one: fork copies memory and takes only one thread along.
    COPIED = "copied"
    #: Nothing is mapped there.
    UNMAPPED = "unmapped"
    #: The memory is not a thread descriptor.
    OTHER = "other"


def descriptor_state(memory: Memory, layouts: Layouts | None, pthread: int) -> Descriptor:
    """What became of the thread of a descriptor that is not a living thread's.

    The descriptor of a thread that has ended says so while its memory is mapped. That of a thread that fork did not
    copy is as it was when the thread ran. Source: glibc 2.36 nptl/descr.h.

    :param layouts: the C library's, None if they are not known.
    :param pthread: ``struct pthread *``.
    """
    try:
        if layouts is None:
            memory.read(pthread, 1)
            return Descriptor.OTHER
        own, state = layouts["struct pthread"].reader("self", "cancelhandling")(memory, pthread)
    except GdbextError:
        return Descriptor.UNMAPPED
    if own != pthread:
        return Descriptor.OTHER
    return Descriptor.ENDED if state & (_EXITING | _TERMINATED) else Descriptor.COPIED


def read_tid(memory: Memory, layouts: Layouts, pthread: int) -> int:
    """The kernel's thread id, in the PID namespace of the process: the number that owner fields hold.

    Source: glibc 2.36 nptl/descr.h.

    :param pthread: ``struct pthread *`` in the target.
    :return: TID; 0 for a thread that has finished.
    :raises MemoryUnreadable: the descriptor is not mapped, or not in the core.
    :raises CorruptStructure: what lies there is no thread descriptor.
    """
    own, tid = layouts["struct pthread"].reader("self", "tid")(memory, pthread)
    if own != pthread:
        raise CorruptStructure(pthread, "the thread descriptor does not point to itself")
    if tid < 0:
        raise CorruptStructure(pthread, "the thread descriptor has a negative TID")
    return tid


def pthread_of_join(layouts: Layouts, address: int, descriptors: Container[int]) -> int | None:
    """The descriptor of the thread that `pthread_join` waits for, by the futex word it sleeps on.

    Up to glibc 2.42 that is ``tid`` of the thread waited for, since 2.43 ``joinstate``.

    :param address: futex word.
    :param descriptors: ``struct pthread *`` of each thread.
    :return: ``struct pthread *``, or None if the word belongs to no descriptor.
    """
    known = layouts["struct pthread"]
    for member in ("tid", "joinstate"):
        if member in known and address - known.offset(member) in descriptors:
            return address - known.offset(member)
    return None
