"""slaclab/rogue#396: a notification is missed, and the thread that it was for waits forever.

The producer notifies before the consumer waits, and the consumer does not check the state first.

Truth: {"expect": "deadlock", "standstill": true,
        "edges": [["consumer", "py-condition|py-lock|semaphore", null],
                  ["main", "thread-exit|py-lock|py-event|semaphore", "consumer"]]}
"""

import threading

from tests.precision.programs import scene

condition = threading.Condition()


def consume() -> None:
    with condition:
        condition.wait()


if __name__ == "__main__":
    with condition:
        condition.notify_all()
    thread = scene.thread("consumer", consume)
    scene.ready()
    thread.join()
