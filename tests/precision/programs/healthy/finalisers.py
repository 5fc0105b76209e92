"""itamarst/crochet#25, with an RLock: the garbage collector runs finalisers that take locks, in every thread.

Truth: {"expect": "healthy"}
"""

from __future__ import annotations

import gc
import threading

from tests.precision.programs import scene

lock = threading.RLock()
collected = 0


class Resource:
    """In a cycle with itself, so that only the garbage collector frees it."""

    def __init__(self) -> None:
        self.me = self

    def __del__(self) -> None:
        global collected
        with lock:
            collected += 1


def work() -> None:
    while not scene.stopping.is_set():
        with lock:
            for _ in range(20):
                Resource()
        scene.stopping.wait(0.0005)


if __name__ == "__main__":
    gc.set_threshold(50, 5, 5)
    threads = [scene.thread(f"thread-{number}", work) for number in range(4)]
    scene.ready()
    while not scene.stopping.is_set():
        gc.collect()
    for thread in threads:
        thread.join()
