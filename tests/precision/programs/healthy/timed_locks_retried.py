"""apache/paimon#9267, a way out of it: two locks in either order, with a timeout and a new try.

At times both threads wait for each other, but only for some milliseconds; then one of them gives up.

Truth: {"expect": "healthy"}
"""

import threading

from tests.precision.programs import scene

a, b = threading.Lock(), threading.RLock()


def work(name: str) -> None:
    first, second = (a, b) if name == "one" else (b, a)
    while not scene.stopping.is_set():
        with first:
            if second.acquire(timeout=0.01):
                second.release()


if __name__ == "__main__":
    threads = [scene.thread(name, work, name) for name in ("one", "two", "three")]
    scene.ready()
    for thread in threads:
        thread.join()
