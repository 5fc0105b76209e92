"""Timed futex waits that an earlier stop interrupted: the kernel has restarted them as ``restart_syscall``."""

from __future__ import annotations

import struct
from dataclasses import replace

from gdbext.errors import if_unreadable
from gdbext.glibc.futex import FutexWait, decode_futex_wait
from gdbext.glibc.pthread import pthread_of_join
from gdbext.inferior.cache import read_u32
from gdbext.inferior.protocol import Memory
from gdbext.layout.table import Layouts
from gdbext.threads.code import Code
from gdbext.threads.site import Sites
from gdbext.threads.threads import Threads


def find_restarted_waits(memory: Memory, layouts: Layouts, code: Code, threads: Threads, sites: Sites) -> Threads:
    """The threads, with the futex waits that were restarted."""
    changed = []
    for seen in threads:
        if seen.futex is None and seen.call is not None and seen.call.blocked and seen.call.name is None:
            wait = decode_futex_wait(seen.call, surely=True)
            if wait is not None and (
                    pthread_of_join(layouts, wait.address, threads.number_of_pthread) is not None
                    or "syscall" in sites.site(seen.native(code)).functions
                    and _is_asleep(memory, wait, seen.call.arguments[3])):
                changed.append(replace(seen, futex=wait))
    return threads.replaced(changed)


@if_unreadable(False)
def _is_asleep(memory: Memory, wait: FutexWait, timeout: int) -> bool:
    """Whether the arguments of a restarted call make sense for a futex wait: the word has the expected value."""
    seconds, nanoseconds = struct.unpack("<qq", memory.read(timeout, 16))  # struct timespec
    return bool(read_u32(memory, wait.address) == wait.expected and seconds >= 0 and 0 <= nanoseconds < 10**9)
