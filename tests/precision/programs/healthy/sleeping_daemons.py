"""bpo-1856: daemon threads that sleep, for hours or for moments, some of them while holding a lock.

Others wait for these locks, until the holder wakes up.

Truth: {"expect": "healthy"}
"""

import threading
import time

from tests.precision.programs import scene

locks = [threading.Lock() for _ in range(3)]


def doze(number: int) -> None:
    while True:
        with locks[number]:
            time.sleep(0.005 * (number + 1))


def hibernate() -> None:
    with threading.Lock():
        time.sleep(10000)


if __name__ == "__main__":
    for number in range(3):
        scene.thread(f"napping-{number}", doze, number)
        scene.thread(f"napping-too-{number}", doze, number)
        scene.thread(f"sleeping-{number}", hibernate)
    scene.ready()
    while not scene.stopping.is_set():
        for lock in locks:
            with lock:
                pass
