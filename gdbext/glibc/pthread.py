"""`struct pthread`, the thread descriptor, which has the thread's TID in its own PID namespace.

On x86-64 the thread pointer (``fs_base``) is the address of the descriptor, and ``pthread_self`` returns it.
"""

from __future__ import annotations

import enum
from collections.abc import Container

from gdbext.errors import CorruptStructure, GdbextError, if_unreadable
from gdbext.inferior.protocol import Memory
from gdbext.layout.table import Layouts

_EXITING, _TERMINATED = 1 << 4, 1 << 5  # EXITING_BITMASK, TERMINATED_BITMASK of `cancelhandling`


class Descriptor(enum.Enum):
    """The state of a thread descriptor that belongs to none of the listed threads."""

    #: The thread has ended in this process.
    ENDED = "ended"
    #: The thread runs in the parent process: fork copies all memory, but only the calling thread.
    COPIED = "copied"
    #: The memory is not mapped.
    UNMAPPED = "unmapped"
    #: The memory is not a thread descriptor.
    OTHER = "other"


def descriptor_state(memory: Memory, layouts: Layouts | None, pthread: int) -> Descriptor:
    """Determine the state of a thread descriptor that belongs to none of the listed threads.

    The descriptor of an ended thread has a flag for it, as long as its memory is mapped. The descriptor of a thread
    that fork did not copy is unchanged. Source: glibc 2.36 nptl/descr.h.

    :param layouts: the C library's layouts, or None if not known.
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


@if_unreadable(None)
def find_descriptor(memory: Memory, layouts: Layouts, robust_list: int | None) -> int | None:
    """Find a thread's descriptor by the robust list in it, which each thread registers with the kernel.

    Source: glibc 2.36 nptl/pthread_create.c (start_thread), sysdeps/nptl/dl_tls_init_tp.c.

    :param robust_list: ``struct robust_list_head *``, None if the kernel has none.
    :return: ``struct pthread *``, None if the address is not in a descriptor.
    """
    if robust_list is None:
        return None
    known = layouts["struct pthread"]
    pthread = robust_list - known.offset("robust_head")
    own, = known.reader("self")(memory, pthread)
    return pthread if own == pthread else None


def read_tid(memory: Memory, layouts: Layouts, pthread: int) -> int:
    """Read the kernel's thread id in the PID namespace of the process, which is the number in owner fields.

    Source: glibc 2.36 nptl/descr.h.

    :param pthread: ``struct pthread *`` in the target.
    :return: TID; 0 for a thread that has finished.
    :raises MemoryUnreadable: the descriptor is not mapped, or not in the core.
    :raises CorruptStructure: the memory is not a thread descriptor.
    """
    own, tid = layouts["struct pthread"].reader("self", "tid")(memory, pthread)
    if own != pthread:
        raise CorruptStructure(pthread, "the thread descriptor does not point to itself")
    if tid < 0:
        raise CorruptStructure(pthread, "the thread descriptor has a negative TID")
    return tid


def pthread_of_join(layouts: Layouts, address: int, descriptors: Container[int]) -> int | None:
    """The descriptor of the thread that `pthread_join` waits for, by the futex word of the wait.

    Up to glibc 2.42 the word is the joined thread's ``tid``, since 2.43 its ``joinstate``.

    :param address: futex word.
    :param descriptors: ``struct pthread *`` of each thread.
    :return: ``struct pthread *``, or None if the word is in none of the descriptors.
    """
    return next((at for at in _joined(layouts, address) if at in descriptors), None)


def ended_thread_of_join(memory: Memory, layouts: Layouts, address: int) -> int | None:
    """As `pthread_of_join`, for a thread that has just ended; the joining thread is about to wake.

    :param address: futex word.
    :return: ``struct pthread *``, or None if the word is not in the descriptor of an ended thread.
    """
    return next((at for at in _joined(layouts, address)
                 if descriptor_state(memory, layouts, at) is Descriptor.ENDED), None)


def _joined(layouts: Layouts, address: int) -> list[int]:
    """The descriptors that a futex word of `pthread_join` may be in."""
    known = layouts["struct pthread"]
    found = []
    for member in ("tid", "joinstate"):
        if member in known:
            found.append(address - known.offset(member))
    return found
