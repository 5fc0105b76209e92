"""python/cpython#96062: `multiprocessing.Pool` never gives a result when the worker process that had the job is killed.

The pool starts another worker and does not notice the lost job. Its threads continue and could do other jobs; only
the result never arrives.

Truth: {"expect": "hang"}
"""

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable

from tests.precision.programs import scene


def job() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    before = threading.Thread.start

    def start(self: threading.Thread, original: Callable[[threading.Thread], None] = before) -> None:
        original(self)
        scene._roles[self.name] = self.native_id or 0

    threading.Thread.start = start  # type: ignore[method-assign]
    with multiprocessing.get_context("fork").Pool(1) as pool:
        first = pool.apply(os.getpid)
        lost = pool.apply_async(job)
        while [worker.pid for worker in pool._pool] in ([first], []):  # type: ignore[attr-defined]
            time.sleep(0.01)
        scene.ready()
        lost.get()
