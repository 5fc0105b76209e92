"""CPython's parking lot: on which address a thread is parked, from the entry that it has left on its own C stack.

Source: CPython 3.13 Python/parking_lot.c, Python/lock.c, Include/internal/pycore_llist.h. A ``PyMutex`` is one byte, so
a thread that waits for it sleeps on a semaphore of its own, inside a ``struct wait_entry``.
"""

from __future__ import annotations

from gdbext.errors import if_unreadable
from gdbext.inferior.protocol import Memory
from gdbext.layout.table import Layouts
from gdbext.record import record


@record
class Parked:
    """A parked thread: the address that it waits at.

    `is_mutex` tells that it waits for a ``PyMutex``, `handed_off` that this has been passed on to it already.
    """

    address: int
    handed_off: bool
    is_mutex: bool = True


@if_unreadable(None)
def parked_on(memory: Memory, layouts: Layouts, futex: int, stack_pointer: int, stack_end: int) -> Parked | None:
    """Where a thread is parked, or None if it is not.

    :param futex: address of the word that it sleeps on.
    :param stack_pointer: of its newest frame.
    :param stack_end: where its C stack ends, or a bound for how far up the entry is looked for.
    """
    if not stack_pointer <= futex < stack_end or "wait_entry" not in layouts:
        return None
    known = layouts["wait_entry"]
    entry = futex - known.offset("sema")
    node = entry + known.offset("node")
    linked = layouts["llist_node"].reader("next", "prev")
    argument, address, leaving = known.reader("park_arg", "addr", "is_unparking")(memory, entry)
    following, previous = linked(memory, node)
    if leaving or not address or linked(memory, following)[1] != node or linked(memory, previous)[0] != node:
        return None
    handed_off = False
    if argument and "mutex_entry" in layouts:
        handed_off = layouts["mutex_entry"].reader("handed_off")(memory, argument) == (1,)
    # only who waits for a mutex has something to be told
    return Parked(address, handed_off, bool(argument))
