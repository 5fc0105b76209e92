"""A thread forks while another thread has a suspended greenlet inside a `with` block; the child waits for that lock.

In the child nobody can resume the greenlet. A new thread of the child may have its thread state, and its stack, at the
addresses of those of the thread that started the greenlet; but it does not hold the lock.

Truth: {"expect": "deadlock", "packages": ["greenlet"], "pythons": ["3.11"], "standstill": true,
        "edges": [["main", "thread-exit|py-lock", "taker"], ["taker", "py-lock", null]]}
"""

import os
import threading

import greenlet  # type: ignore[import-not-found,import-untyped,unused-ignore]

from tests.precision.programs import scene


def keep(lock: threading.Lock) -> None:
    with lock:
        greenlet.getcurrent().parent.switch()


def hold(lock: threading.Lock, held: threading.Event) -> None:
    kept = greenlet.greenlet(keep)
    kept.switch(lock)
    held.set()
    threading.Event().wait()
    kept.switch()


def take(lock: threading.Lock) -> None:
    with lock:
        raise AssertionError("the lock was free")


if __name__ == "__main__":
    guard, holds = threading.Lock(), threading.Event()
    scene.thread("holder", hold, guard, holds)
    holds.wait()
    child = os.fork()
    if child:
        os.waitpid(child, 0)
    else:
        taker = scene.thread("taker", take, guard)
        scene.ready()
        taker.join()
