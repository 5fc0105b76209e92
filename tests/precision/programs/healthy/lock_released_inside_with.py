"""hail-is/hail#10561: a manager that gives a lock back inside the `with` block of the lock, and takes it again later.

Thread A is inside `with lock`, but has released it while it waits for B. B waits for the lock, which C has, and C
will release it by itself. The manager is a generator here and a class, as in the report, there.

Truth: {"expect": "healthy"}
"""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

from tests.precision.programs import scene

Without = Callable[[threading.Lock], "contextlib.AbstractContextManager[object]"]


@contextlib.contextmanager
def without(taken: threading.Lock) -> Iterator[None]:
    taken.release()
    try:
        yield
    finally:
        taken.acquire()


class WithoutLock:
    def __init__(self, taken: threading.Lock) -> None:
        self.taken = taken

    def __enter__(self) -> None:
        self.taken.release()

    def __exit__(self, *error: object) -> None:
        self.taken.acquire()


def gather(lock: threading.Lock, manager: Without) -> None:
    while not scene.stopping.is_set():
        with lock:
            thread = threading.Thread(target=part, args=(lock,))
            thread.start()
            with manager(lock):
                thread.join()


def part(lock: threading.Lock) -> None:
    for _ in range(20):
        with lock:
            pass


def use(lock: threading.Lock) -> None:
    while not scene.stopping.is_set():
        lock.acquire()
        try:
            time.sleep(0.003)
        finally:
            lock.release()


if __name__ == "__main__":
    one, other = threading.Lock(), threading.Lock()
    threads = [
        scene.thread("gathering-1", gather, one, without),
        scene.thread("gathering-2", gather, other, WithoutLock),
        scene.thread("using-1", use, one),
        scene.thread("using-2", use, other),
    ]
    scene.ready()
    for thread in threads:
        thread.join()
