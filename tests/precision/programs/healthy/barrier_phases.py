"""python/cpython#117991: threads work in phases, with a `threading.Barrier` after each of them.

Truth: {"expect": "healthy"}
"""

import threading

from tests.precision.programs import scene

barrier = threading.Barrier(5)


def work(number: int) -> None:
    try:
        while not scene.stopping.is_set():
            sum(range(1000 * number))
            barrier.wait()
        barrier.abort()
    except threading.BrokenBarrierError:
        pass


if __name__ == "__main__":
    threads = [scene.thread(f"party-{number}", work, number) for number in range(5)]
    scene.ready()
    for thread in threads:
        thread.join()
