"""Two threads take two locks that an extension has made with `PyThread_allocate_lock`, in opposite order.

Such a lock is a semaphore that any thread may release, so the thread that has taken it is only a candidate.

Truth: {"expect": "deadlock", "standstill": true, "silent": ["core"], "pythons": ["3.11", "3.13"],
        "extension": "pythread_locks.cpp", "flags": ["-O2"],
        "edges": [["one", "semaphore", null], ["two", "semaphore", null], ["main", "py-lock|thread-exit", "one"]]}
"""

import ctypes
import os

from tests.precision.programs import scene

if __name__ == "__main__":
    library = ctypes.CDLL(os.environ["PRECISION_EXTENSION"])
    library.prepare()
    threads = [scene.thread(role, library.work, side) for side, role in enumerate(("one", "two"))]
    scene.ready()
    for thread in threads:
        thread.join()
