"""bpo-7946: hundreds of threads for one lock and one GIL; at any time all but one of them wait.

Truth: {"expect": "healthy"}
"""

import threading

from tests.precision.programs import scene

lock = threading.Lock()
turns = 0


def work() -> None:
    global turns
    while not scene.stopping.is_set():
        with lock:
            turns += 1
            sum(range(200))


if __name__ == "__main__":
    threads = [scene.thread(f"thread-{number}", work) for number in range(150)]
    scene.ready()
    for thread in threads:
        thread.join()
