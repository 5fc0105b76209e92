"""getsentry/sentry-python#803: garbage collection inside `Queue.put` runs a destructor that puts into the queue.

The mutex of a queue is a plain lock. A finaliser logs to the queue, and the collector runs it in the thread that has
the mutex; all others that log then wait forever as well.

Truth: {"expect": "deadlock",
        "edges": [["transport", "py-lock", "transport"]],
        "behind": ["main"]}
"""

from __future__ import annotations

import gc
import queue

from tests.precision.programs import scene


class Events(queue.Queue[object]):
    def _put(self, item: object) -> None:
        super()._put([item])
        gc.collect()


class Deferred:
    """In a cycle with itself, so that only the garbage collector frees it."""

    def __init__(self) -> None:
        self.me = self

    def __del__(self) -> None:
        events.put("unhandled error")


events = Events()


if __name__ == "__main__":
    gc.disable()
    Deferred()
    scene.thread("transport", events.put, "first")
    scene.await_held(events.mutex)
    scene.ready()
    events.put("second")
