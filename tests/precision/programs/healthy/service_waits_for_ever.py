"""bpo-8844: a service whose main thread is in `Event().wait()` forever; a signal handler ends it.

All the other threads are idle, in `Queue.get` and in a condition variable. Nothing happens in this process until it
gets a signal, and nothing is wrong with it.

Truth: {"expect": "healthy"}
"""

import queue
import threading

from tests.precision.programs import scene

jobs: "queue.Queue[int]" = queue.Queue()
changed = threading.Condition()


def work() -> None:
    while True:
        jobs.get()


def watch() -> None:
    with changed:
        changed.wait()


if __name__ == "__main__":
    for number in range(3):
        scene.thread(f"worker-{number}", work)
    scene.thread("watcher", watch)
    with scene.until_told():
        scene.ready()
        threading.Event().wait()
