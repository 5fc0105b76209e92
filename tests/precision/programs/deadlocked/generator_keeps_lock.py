"""Two threads take two locks in opposite order; each takes its first lock in a generator that it then leaves suspended.

Only the thread itself has references to its generator, so no other thread can make it leave its `with` block.

Truth: {"expect": "deadlock", "edges": [["one", "py-lock", "two"], ["two", "py-lock", "one"]], "behind": ["main"]}
"""

import threading
from collections.abc import Iterator

from tests.precision.programs import scene


def numbers(lock: threading.Lock) -> Iterator[int]:
    with lock:
        yield from range(3)


def outer(lock: threading.Lock) -> Iterator[int]:
    yield from numbers(lock)


def work(first: threading.Lock, second: threading.Lock, barrier: threading.Barrier) -> None:
    rows = outer(first)
    next(rows)
    barrier.wait()
    with second:
        next(rows)


if __name__ == "__main__":
    a, b, both = threading.Lock(), threading.Lock(), threading.Barrier(3)
    threads = [scene.thread("one", work, a, b, both), scene.thread("two", work, b, a, both)]
    both.wait()
    scene.ready()
    for thread in threads:
        thread.join()
