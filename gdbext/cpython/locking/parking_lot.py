"""CPython's parking lot: the address that a thread is parked at, from the entry on its own C stack.

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
    """A parked thread: the address it waits at; whether that is a ``PyMutex`` that was already handed to the thread."""

    address: int
    handed_off: bool
    is_mutex: bool = True


def is_linked(memory: Memory, layouts: Layouts, node: int) -> bool:
    """Whether a ``struct llist_node *`` is in a list: its neighbours point back to it."""
    linked = layouts["llist_node"].reader("next", "prev")
    following, previous = linked(memory, node)
    return linked(memory, following)[1] == node and linked(memory, previous)[0] == node


@if_unreadable(None)
def parked_on(memory: Memory, layouts: Layouts, futex: int, stack_pointer: int, stack_end: int) -> Parked | None:
    """The address that a thread is parked at, or None.

    :param futex: address of the word that the thread sleeps on.
    :param stack_pointer: that of its innermost frame.
    :param stack_end: the end of its C stack, or a bound for the search.
    """
    if not stack_pointer <= futex < stack_end or "wait_entry" not in layouts:
        return None
    known = layouts["wait_entry"]
    entry = futex - known.offset("sema")
    argument, address, leaving = known.reader("park_arg", "addr", "is_unparking")(memory, entry)
    if leaving or not address or not is_linked(memory, layouts, entry + known.offset("node")):
        return None
    handed_off = bool(argument) and "mutex_entry" in layouts and (
        layouts["mutex_entry"].reader("handed_off")(memory, argument) == (1,))
    # only a thread that waits for a mutex passes an argument
    return Parked(address, handed_off, bool(argument))
