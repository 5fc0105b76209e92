"""birdnet-team/birdnet#73: a worker process is killed while it has a `multiprocessing.Lock`; the others wait forever.

The lock is a semaphore in shared memory, which has no owner. No other process has it mapped any more, so none will post
it; a core does not show that.

Truth: {"expect": "deadlock", "edges": [["main", "py-lock", null]], "silent": ["core"]}
"""

import multiprocessing
import os
import signal
from typing import Any

from tests.precision.programs import scene


def crash(lock: Any) -> None:
    lock.acquire()
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    context = multiprocessing.get_context("fork")
    lock = context.Lock()
    worker = context.Process(target=crash, args=(lock,))
    worker.start()
    worker.join()
    scene.ready()
    lock.acquire()
