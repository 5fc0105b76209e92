"""python/cpython#90716, simplified: native code waits for condition variables that no other thread will signal.

All threads of the process are in `pthread_cond_wait` outside of the interpreter, and no handler of a signal is set.

Truth: {"expect": "deadlock", "standstill": true,
        "edges": [["main", "condvar", null], ["worker", "condvar", null]]}
"""

import ctypes

from tests.precision.programs import scene

LIBRARY = ctypes.CDLL(None)


def wait_forever() -> None:
    mutex, condition = ctypes.create_string_buffer(64), ctypes.create_string_buffer(64)
    LIBRARY.pthread_mutex_lock(mutex)
    LIBRARY.pthread_cond_wait(condition, mutex)


if __name__ == "__main__":
    scene.thread("worker", wait_forever)
    scene.ready()
    wait_forever()
