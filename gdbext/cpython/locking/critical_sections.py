"""Critical sections of free-threaded CPython: the locks of objects that a thread holds or has suspended.

A thread takes the lock of an object (``ob_mutex``) by a ``PyCriticalSection`` on its C stack, which its thread state
lists. A thread that detaches releases all these locks and marks the sections inactive; it takes the locks again when it
returns to each section. So only attached threads hold locks: those of their active sections.

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
#: Deepest plausible nesting of sections.
MAX_SECTIONS = 200


class CriticalSection(NamedTuple):
    """A section that a thread is in, and its one or two ``PyMutex *``; none while the thread still waits for them."""

    address: int
    mutexes: tuple[int, ...]
    active: bool


def has_critical_sections(layouts: Layouts) -> bool:
    """Whether the thread states of a build list critical sections; only free-threaded builds do."""
    return (layouts.build == "free-threaded" and layouts.has("PyThreadState", "critical_section")
            and layouts.has("PyCriticalSection", "_cs_prev") and layouts.has("PyCriticalSection2", "_cs_mutex2"))


def iter_sections(memory: Memory, layouts: Layouts, tstate: int) -> Iterator[CriticalSection]:
    """The critical sections of a thread, innermost first.

    :param tstate: ``PyThreadState *``.
    :raises GdbextError: the rest of the list is unreadable.
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
    """The object (``PyObject *``) that contains a ``PyMutex *`` as its lock; None if it does not look like one."""
    if not layouts.has("PyObject", "ob_mutex"):
        return None
    address = mutex - layouts["PyObject"].offset("ob_mutex")
    return address if objects.is_object(address) else None
