"""bpo-7946: threads that compute, with a switch interval of 10 us, so that the GIL changes hands all the time.

Truth: {"expect": "healthy"}
"""

import sys

from tests.precision.programs import scene


def compute() -> None:
    number = 1
    while not scene.stopping.is_set():
        for _ in range(100):
            number = number * 5 % 1000003


if __name__ == "__main__":
    sys.setswitchinterval(1e-5)
    threads = [scene.thread(f"thread-{number}", compute) for number in range(6)]
    scene.ready()
    compute()
    for thread in threads:
        thread.join()
