"""Waits of threads in numba's work queue, one of its layers for parallel loops (``NUMBA_THREADING_LAYER=workqueue``).

Each worker has a queue: a condition variable, its mutex and a state. The worker waits until its queue has a part of a
loop, and the thread that runs the loop waits until that part is done. Both use the queue's condition variable.

Source: numba 0.61 numba/np/ufunc/workqueue.c (``Queue``, ``queue_state_wait``).
"""

from __future__ import annotations

import re
from typing import Final

from gdbext.errors import if_unreadable
from gdbext.inferior.cache import read_u32
from gdbext.inferior.protocol import Memory
from gdbext.layout.table import Layouts
from gdbext.model.reasons import ReasonCode, because
from gdbext.threads.code import Code
from gdbext.threads.site import Sites
from gdbext.threads.threads import SeenThread
from gdbext.waits.seen import SeenLock, for_purpose, job_of_pool

_FILE: Final = re.compile(r"^workqueue\.(?:cpython-|abi3)[^/]*\.so$")
#: A worker that has no part of a loop, so it cannot finish one.
WORKER_IDLE: Final[ReasonCode] = "numba-worker-idle"
_WAITS: Final[ReasonCode] = "numba-waits-for-loop"
# ``QUEUE_STATE``
_IDLE, _READY, _RUNNING, _DONE = range(4)


@if_unreadable(None)
def find_queue_wait(memory: Memory, layouts: Layouts, code: Code, sites: Sites, seen: SeenThread,
                    event: SeenLock) -> SeenLock | None:
    """What a thread waits for that sleeps on the condition variable of a queue; None for any other wait.

    While the worker runs its part, only the other thread sleeps. While the part is only ready, the worker may be
    about to wake up, and memory shows the same for both.

    :param event: the condition variable, at ``pthread_cond_t *``.
    """
    native = seen.native(code)
    pc = next((pc for pc, _ in native if not sites.in_runtime(pc)), None)
    module = code.module(pc) if pc is not None else None
    if module is None or not _FILE.match(module.name):
        return None
    state = read_u32(memory, event.address + layouts["pthread_cond_t"].size + layouts["pthread_mutex_t"].size)
    if state == _RUNNING:
        return job_of_pool(event, _WAITS)
    code_of_state = {_IDLE: WORKER_IDLE, _DONE: WORKER_IDLE, _READY: _WAITS}.get(state)
    return for_purpose(event, because(code_of_state)) if code_of_state is not None else None
