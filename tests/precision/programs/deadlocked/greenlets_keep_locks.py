"""Two threads take two locks in opposite order; each takes its first lock in a greenlet that it then leaves suspended.

A greenlet can only be resumed by its own thread, so no other thread can make it leave its `with` block. One of the
greenlets is the thread's own: there the function that waits runs in a greenlet.

Truth: {"expect": "deadlock", "packages": ["greenlet"], "pythons": ["3.11"], "behind": ["main"],
        "edges": [["one", "py-lock", "two"], ["two", "py-lock", "one"]]}
"""

import threading

import greenlet  # type: ignore[import-not-found,import-untyped,unused-ignore]

from tests.precision.programs import scene


def keep(lock: threading.Lock) -> None:
    with lock:
        greenlet.getcurrent().parent.switch()


def work(first: threading.Lock, second: threading.Lock, barrier: threading.Barrier) -> None:
    kept = greenlet.greenlet(keep)
    kept.switch(first)
    barrier.wait()
    with second:
        kept.switch()


def take(lock: threading.Lock, barrier: threading.Barrier) -> None:
    barrier.wait()
    with lock:
        pass


def work_in_greenlet(first: threading.Lock, second: threading.Lock, barrier: threading.Barrier) -> None:
    with first:
        greenlet.greenlet(take).switch(second, barrier)


if __name__ == "__main__":
    a, b, both = threading.Lock(), threading.Lock(), threading.Barrier(3)
    threads = [scene.thread("one", work, a, b, both), scene.thread("two", work_in_greenlet, b, a, both)]
    both.wait()
    scene.ready()
    for thread in threads:
        thread.join()
