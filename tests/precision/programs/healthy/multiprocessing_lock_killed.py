"""birdnet-team/birdnet#73: a worker process is killed while it has a `multiprocessing.Lock`; the others wait forever.

The lock is a semaphore in shared memory, which has no owner. For the process that waits there is no telling whether
another one will post it; none of its own threads has anything to do with it.

Truth: {"expect": "hang"}
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
