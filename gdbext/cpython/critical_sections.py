"""Critical sections of free-threaded CPython: which objects' locks a thread holds, and which it has let go for now.

A thread takes the lock of an object (``ob_mutex``) by a ``PyCriticalSection`` on its C stack, which its thread state
lists. When it detaches, all the locks are released and the sections marked inactive; they are taken again as it comes
back to each. So only an attached thread holds anything, and it holds what its active sections name.

Sources: CPython 3.13 Include/internal/pycore_critical_section.h, Python/critical_section.c.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from gdbext.cpython.objects import Objects
from gdbext.errors import if_unreadable
from gdbext.inferior.protocol import Memory
from gdbext.layout.table import Layouts

# tags of a ``uintptr_t`` in the list (_Py_CRITICAL_SECTION_INACTIVE, _Py_CRITICAL_SECTION_TWO_MUTEXES)
_INACTIVE, _TWO_MUTEXES, _TAGS = 1, 2, 3
#: How many sections inside one another are believed.
MAX_SECTIONS = 200


class CriticalSection(NamedTuple):
    """A section that a thread is in: the ``PyMutex *`` of it, one or two; none while it still waits for them."""

    address: int
    mutexes: tuple[int, ...]
    active: bool


def has_critical_sections(layouts: Layouts) -> bool:
    """Whether thread states of a build list critical sections: those of free-threaded builds do."""
    return (layouts.build == "free-threaded" and layouts.has("PyThreadState", "critical_section")
            and layouts.has("PyCriticalSection", "_cs_prev") and layouts.has("PyCriticalSection2", "_cs_mutex2"))


def iter_sections(memory: Memory, layouts: Layouts, tstate: int) -> Iterator[CriticalSection]:
    """The critical sections of a thread, the innermost first.

    :param tstate: ``PyThreadState *``.
    :raises GdbextError: the list cannot be read on.
    """
    one, two = layouts["PyCriticalSection"], layouts["PyCriticalSection2"]
    at, = layouts["PyThreadState"].reader("critical_section")(memory, tstate)
    seen: set[int] = set()
    while at & ~_TAGS and len(seen) < MAX_SECTIONS and at & ~_TAGS not in seen:
        address = at & ~_TAGS
        seen.add(address)
        previous, mutex = one.reader("_cs_prev", "_cs_mutex")(memory, address)
        mutexes = [mutex]
        if at & _TWO_MUTEXES:
            mutexes += two.reader("_cs_mutex2")(memory, address)
        yield CriticalSection(address, tuple([mutex for mutex in mutexes if mutex]), not at & _INACTIVE)
        at = previous


@if_unreadable(None)
def object_with(layouts: Layouts, objects: Objects, mutex: int) -> int | None:
    """The object (``PyObject *``) whose lock a ``PyMutex *`` is; None where no object seems to lie."""
    if not layouts.has("PyObject", "ob_mutex"):
        return None
    address = mutex - layouts["PyObject"].offset("ob_mutex")
    return address if objects.is_object(address) else None
