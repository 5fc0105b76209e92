"""Waits of threads in numba's work queue, one of its layers for parallel loops (``NUMBA_THREADING_LAYER=workqueue``).

Each worker has a queue: a condition variable, its mutex and a state. The worker waits until its queue has a part of a
loop, and the thread that runs the loop waits until that part is done.

Source: numba 0.61 numba/np/ufunc/workqueue.c (``Queue``, ``queue_state_wait``).
"""

from __future__ import annotations

import re
from typing import Final

from gdbext.errors import if_unreadable
from gdbext.inferior.cache import read_u32
from gdbext.inferior.protocol import Memory
from gdbext.layout.table import Layouts
from gdbext.model.reasons import Reason, because
from gdbext.threads.code import Code
from gdbext.threads.site import Sites
from gdbext.threads.threads import SeenThread

_FILE: Final = re.compile(r"^workqueue\.(?:cpython-|abi3)[^/]*\.so$")
# ``QUEUE_STATE``
_IDLE, _READY, _RUNNING, _DONE = range(4)


@if_unreadable(None)
def describe_queue_wait(memory: Memory, layouts: Layouts, code: Code, sites: Sites, seen: SeenThread,
                        condition: int) -> Reason | None:
    """What a thread waits for that sleeps on the condition variable of a queue; None for any other wait.

    :param condition: ``pthread_cond_t *``.
    """
    native = seen.native(code)
    pc = next((pc for pc, _ in native if not sites.in_runtime(pc)), None)
    module = code.module(pc) if pc is not None else None
    if module is None or not _FILE.match(module.name):
        return None
    state = read_u32(memory, condition + layouts["pthread_cond_t"].size + layouts["pthread_mutex_t"].size)
    if state in (_IDLE, _DONE):
        return because("numba-worker-idle")
    return because("numba-waits-for-loop") if state in (_READY, _RUNNING) else None
