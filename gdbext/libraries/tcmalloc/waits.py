"""Waits for locks of tcmalloc, whose threads sleep for a short time, try again, and sleep again.

A lock of tcmalloc is held only by code of tcmalloc, and records no owner.
"""

from __future__ import annotations

from typing import Final

from gdbext.errors import if_unreadable
from gdbext.glibc.futex import FUTEX_WAIT, FutexWait
from gdbext.inferior.cache import read_u32
from gdbext.libraries.tcmalloc import LIBRARY
from gdbext.locks.library_parts import LibraryWaits
from gdbext.locks.seen import FREE, SeenLock
from gdbext.model.reasons import because
from gdbext.threads.threads import SeenThread

KIND: Final = "allocator-lock"
#: A `SpinLock` is 0 if it is free, 1 if held, 2 if held and threads sleep (gperftools 2.10 src/base/spinlock.h).
_FREE, _SLEEPER = 0, 2


class Tcmalloc(LibraryWaits):
    """The waits of threads for locks of tcmalloc."""

    @if_unreadable(None)
    def find_lock(self, seen: SeenThread, futex: FutexWait) -> SeenLock | None:
        """The lock of tcmalloc for which a thread sleeps; None for any other wait."""
        if futex.command != FUTEX_WAIT or futex.expected != _SLEEPER:
            return None
        native = seen.native(self._code)
        caller = self._sites.site(native).caller
        module = self._code.module(native[caller][0]) if caller is not None else None
        if module is None or not LIBRARY.has(module.name):
            return None
        word = read_u32(self._memory, futex.address)
        if word > _SLEEPER:
            return None
        if word == _FREE:
            return SeenLock(KIND, futex.address, FREE, repeats=True, why=because("lock-about-to-be-taken"))
        return SeenLock(KIND, futex.address, "locked", repeats=True)


WAITS = Tcmalloc
