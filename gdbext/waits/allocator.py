"""Waits for locks of tcmalloc, whose threads sleep for a short time, try again, and sleep again.

A lock of tcmalloc is held only by code of tcmalloc, and records no owner. jemalloc uses pthread mutexes, which record
their owners; mimalloc has no locks for which threads sleep.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from gdbext.errors import if_unreadable
from gdbext.glibc.futex import FUTEX_WAIT, FutexWait
from gdbext.inferior.cache import read_u32
from gdbext.model.reasons import because
from gdbext.threads.threads import SeenThread
from gdbext.waits.seen import INSIDE_LIBRARY, SeenLock

if TYPE_CHECKING:
    from gdbext.waits.context import Context

KIND: Final = "allocator-lock"
_FILE = re.compile(r"^libtcmalloc(?:_[a-z_]+)?(?:-[0-9a-f]+)?\.so[.0-9]*$")
#: A `SpinLock` is 0 if it is free, 1 if held, 2 if held and threads sleep (gperftools 2.10 src/base/spinlock.h).
_FREE, _SLEEPER = 0, 2


@if_unreadable(None)
def allocator_lock(seen: SeenThread, futex: FutexWait, context: Context) -> SeenLock | None:
    """The lock of tcmalloc for which a thread sleeps; None for any other wait."""
    if futex.command != FUTEX_WAIT or futex.expected != _SLEEPER:
        return None
    native = seen.native(context.code)
    caller = context.sites.site(native).caller
    module = context.code.module(native[caller][0]) if caller is not None else None
    if module is None or not _FILE.match(module.name):
        return None
    word = read_u32(context.memory, futex.address)
    if word > _SLEEPER:
        return None
    if word == _FREE:
        return SeenLock(KIND, futex.address, "free", repeats=True, why=because("lock-about-to-be-taken"))
    return SeenLock(KIND, futex.address, "locked", repeats=True, find_holders=INSIDE_LIBRARY, count=1)
