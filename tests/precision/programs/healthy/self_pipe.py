"""twisted/twisted#7736, the usual way out: threads that wake one another with bytes in pipes.

All but one wait for locks and events; the one is in `read` of a pipe that the others write to.

Truth: {"expect": "healthy"}
"""

import os
import threading

from tests.precision.programs import scene

reading, writing = os.pipe()
answered = threading.Event()
lock = threading.Lock()


def answer() -> None:
    while os.read(reading, 1):
        answered.set()


def ask() -> None:
    while not scene.stopping.is_set():
        with lock:
            answered.clear()
            os.write(writing, b"?")
            answered.wait()


if __name__ == "__main__":
    scene.thread("answering", answer)
    threads = [scene.thread(f"asking-{number}", ask) for number in range(4)]
    scene.ready()
    for thread in threads:
        thread.join()
