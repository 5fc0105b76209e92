"""Waits of threads inside oneTBB: workers without tasks, and threads that wait until their tasks are done.

Each thread sleeps on a semaphore of its own, which one futex word is, so the thread that will wake it is not known.
What it waits for is shown by the exported function of the library that the program has called; a worker has called
none. For most waits for tasks, the node with the semaphore records the wait (``wait_context``); for a mutex it records
the address.

Source: oneTBB 2021.8 and 2022.0 src/tbb/{semaphore.h,concurrent_monitor.h,private_server.cpp,waiters.h}.
"""

from __future__ import annotations

import re
from typing import Final

from gdbext.errors import if_unreadable
from gdbext.glibc.futex import FUTEX_WAIT, PRIVATE, FutexWait
from gdbext.inferior.protocol import Module
from gdbext.libraries.tbb import LIBRARY
from gdbext.libraries.tbb.decoding import (
    decode_rw_mutex,
    find_address_of_sleeper,
    find_mutex_wait,
    find_wait_of_sleeper,
    is_locked_mutex,
)
from gdbext.locks.library_parts import LibraryWaits
from gdbext.locks.seen import FREE, SeenLock, without_owner
from gdbext.model import EXCLUSIVE, SHARED
from gdbext.model.reasons import because
from gdbext.runtimes.names import public_name
from gdbext.threads.threads import SeenThread

TASKS: Final = "tbb-tasks"
_WAIT: Final = "tbb-wait"
#: The value of a semaphore with a waiting thread (``binary_semaphore``).
_WAITED_FOR = 2
#: Exported functions that wait for tasks, for room or an item in a bounded queue, or for a mutex.
_WAITS_FOR: Final = re.compile(
    r"^tbb::(?:detail::)?r1::(?P<function>wait|execute_and_wait|execute|parallel_pipeline|isolate_within_arena|finalize"
    r"|wait_bounded_queue_monitor|wait_on_address)\b")
_QUEUE: Final = "wait_bounded_queue_monitor"
_MUTEX: Final = "wait_on_address"
#: Those of them that only the end of all tasks of one wait ends.
_WAITS_FOR_TASKS: Final = ("wait", "execute_and_wait")


def is_tbb(module: Module | None) -> bool:
    """Whether a file is the library of oneTBB."""
    return module is not None and LIBRARY.has(module.name)


def waiting_function(name: str | None) -> str | None:
    """The exported function of a symbol's name if it waits. A task that has ended calls none of these."""
    found = _WAITS_FOR.match(public_name(name)) if name is not None else None
    return found["function"] if found is not None else None


class Tbb(LibraryWaits):
    """The waits of threads inside oneTBB."""

    @if_unreadable(None)
    def find_lock(self, seen: SeenThread, futex: FutexWait) -> SeenLock | None:
        """What a thread waits for that sleeps on a semaphore of TBB; None for any other wait."""
        if futex.op != FUTEX_WAIT | PRIVATE or futex.expected != _WAITED_FOR:
            return None
        native = seen.native(self._code)
        first = next((i for i, (pc, _) in enumerate(native) if not self._sites.in_runtime(pc)), len(native))
        after = next((i for i in range(first, len(native)) if not self._is_tbb(native[i][0])), len(native))
        if after == first:
            return None
        if all(self._sites.in_runtime(pc) for pc, _ in native[after:]):
            # nothing but TBB since the thread was started, unless the stack is cut off
            is_whole = after < len(native)
            return SeenLock(_WAIT, futex.address, "idle", why=because("tbb-worker-idle")) if is_whole else None
        called = self._code.cpu.called(self._memory, native[after][0])
        name = self._code.symbol(called).function if called is not None else None
        function = waiting_function(name)
        if function is None:
            return None
        if function == _MUTEX:
            end = native[after + 1][1] if after + 1 < len(native) else native[after][1]
            return self._find_mutex(futex, native[after][1], end)
        wait = find_wait_of_sleeper(self._memory, futex.address) if function in _WAITS_FOR_TASKS else None
        if wait is not None:
            return SeenLock(TASKS, wait, "not finished", why=because("tbb-tasks-in", function=f"tbb::{function}"))
        return SeenLock(_WAIT, futex.address, "waiting for a queue" if function == _QUEUE else "waiting for tasks",
                        why=because("tbb-waits-in", function=f"tbb::{function}"))

    def _find_mutex(self, futex: FutexWait, stack: int, end: int) -> SeenLock | None:
        """The mutex that a thread waits for.

        :param stack: the stack pointer of the frame that has called the library; it ends at `end`.
        """
        address = find_address_of_sleeper(self._memory, futex.address)
        kind = find_mutex_wait(self._memory, address, stack, end) if address is not None else None
        if address is None or kind is None:
            return None
        if kind == "mutex":
            locked = is_locked_mutex(self._memory, address)
            if locked is None:
                return None
            return without_owner("tbb-mutex", address, "locked" if locked else FREE, "tbb")
        state = decode_rw_mutex(self._memory, address)
        if state is None:
            return None
        is_written, readers = state
        text = "write-locked" if is_written else "read-locked" if readers else FREE
        return without_owner("tbb-rwlock", address, text, "tbb", SHARED if kind == "read" else EXCLUSIVE, readers)

    def _is_tbb(self, pc: int) -> bool:
        return is_tbb(self._code.module(pc))


WAITS = Tbb
