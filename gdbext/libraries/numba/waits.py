"""Waits of threads in numba's work queue, one of its layers for parallel loops (``NUMBA_THREADING_LAYER=workqueue``).

Each worker has a queue: a condition variable, its mutex and a state. The worker waits until its queue has a part of a
loop, and the thread that runs the loop waits until that part is done. Both use the queue's condition variable.

Source: numba 0.61 numba/np/ufunc/workqueue.c (``Queue``, ``queue_state_wait``).
"""

from __future__ import annotations

from typing import Final

from gdbext.errors import if_unreadable
from gdbext.inferior.cache import read_u32
from gdbext.libraries.numba import LIBRARY
from gdbext.locks.library_parts import LibraryWaits
from gdbext.locks.seen import SeenLock, for_purpose, job_of_pool
from gdbext.model.reasons import ReasonCode, because
from gdbext.threads.threads import SeenThread

_WORKER_IDLE: Final[ReasonCode] = "numba-worker-idle"
_WAITS: Final[ReasonCode] = "numba-waits-for-loop"
# ``QUEUE_STATE``
_IDLE, _READY, _RUNNING, _DONE = range(4)


class WorkQueue(LibraryWaits):
    """The waits of threads in the work queue."""

    @if_unreadable(None)
    def find_purpose(self, seen: SeenThread, event: SeenLock) -> SeenLock | None:
        """What a thread waits for that sleeps on the condition variable of a queue; None for any other wait.

        While the worker runs its part, only the other thread sleeps. While the part is only ready, the worker may be
        about to wake up, and memory shows the same for both.
        """
        layouts = self._scene.library.layouts
        pc = next((pc for pc, _ in seen.native(self._code) if not self._sites.in_runtime(pc)), None)
        module = self._code.module(pc) if pc is not None else None
        if module is None or layouts is None or not LIBRARY.has(module.name):
            return None
        state = read_u32(self._memory,
                         event.address + layouts["pthread_cond_t"].size + layouts["pthread_mutex_t"].size)
        if state == _RUNNING:
            return job_of_pool(event, _WAITS)
        code_of_state = {_IDLE: _WORKER_IDLE, _DONE: _WORKER_IDLE, _READY: _WAITS}.get(state)
        return for_purpose(event, because(code_of_state)) if code_of_state is not None else None


WAITS = WorkQueue
