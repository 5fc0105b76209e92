"""`struct pthread`, the thread descriptor, which has the thread's TID in its own PID namespace.

``pthread_self`` returns its address. The thread pointer is the same address on x86-64, and on arm64 the descriptor's
end (glibc 2.36 sysdeps/aarch64/nptl/tls.h).
"""

from __future__ import annotations

import enum
from collections.abc import Container, Mapping

from gdbext.arch.protocol import Architecture
from gdbext.errors import CorruptStructure, GdbextError, if_unreadable
from gdbext.inferior.cache import read_u64
from gdbext.inferior.protocol import Memory
from gdbext.layout.table import Layouts

#: `futex_offset` of ``struct robust_list_head``, and its value: __lock less __list.__next of ``pthread_mutex_t``.
_DISTANCE_AT, _DISTANCE = 8, (1 << 64) - 32
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
        state, = layouts["struct pthread"].reader("cancelhandling")(memory, pthread)
        is_one = is_descriptor(memory, layouts, pthread)
    except GdbextError:
        return Descriptor.UNMAPPED
    if not is_one:
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
    pthread = robust_list - layouts["struct pthread"].offset("robust_head")
    return pthread if is_descriptor(memory, layouts, pthread) else None


def is_descriptor(memory: Memory, layouts: Layouts, pthread: int) -> bool:
    """Whether an address is that of a thread descriptor.

    On x86-64 a descriptor points to itself. On arm64 it does not; the distance from a mutex's links to its futex word,
    which the robust list of each thread has for the kernel, has the same value in all of them (glibc 2.36
    nptl/allocatestack.c, sysdeps/nptl/dl_tls_init_tp.c).

    :param pthread: ``struct pthread *``.
    :raises MemoryUnreadable: the memory is not mapped, or not in the core.
    """
    known = layouts["struct pthread"]
    if "self" in known:
        own, = known.reader("self")(memory, pthread)
        return bool(own == pthread)
    distance = read_u64(memory, pthread + known.offset("robust_head") + _DISTANCE_AT)
    return distance == _DISTANCE


def pthread_self(cpu: Architecture, layouts: Layouts | None, registers: Mapping[str, int]) -> int:
    """``pthread_self()`` of a thread, by its thread pointer; 0 if not known.

    :param layouts: the C library's, None if they are not known.
    """
    pointer = registers.get(cpu.THREAD_POINTER, 0)
    if not pointer or not cpu.DESCRIPTOR_IS_BELOW:
        return pointer
    return pointer - layouts["struct pthread"].size if layouts is not None else 0


def thread_pointer(cpu: Architecture, layouts: Layouts, pthread: int) -> int:
    """The thread pointer of the thread with a descriptor, the reverse of `pthread_self`."""
    return pthread + layouts["struct pthread"].size if cpu.DESCRIPTOR_IS_BELOW else pthread


def read_tid(memory: Memory, layouts: Layouts, pthread: int) -> int:
    """Read the kernel's thread id in the PID namespace of the process, which is the number in owner fields.

    Source: glibc 2.36 nptl/descr.h.

    :param pthread: ``struct pthread *`` in the target.
    :return: TID; 0 for a thread that has finished.
    :raises MemoryUnreadable: the descriptor is not mapped, or not in the core.
    :raises CorruptStructure: the memory is not a thread descriptor.
    """
    tid, = layouts["struct pthread"].reader("tid")(memory, pthread)
    if not is_descriptor(memory, layouts, pthread):
        raise CorruptStructure(pthread, "it is not a thread descriptor")
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
