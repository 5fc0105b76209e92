"""patroni/patroni#3413: a signal handler logs, and the interrupted code holds the lock of the log queue.

The handler runs in the main thread, on top of the code that it interrupts. It waits for a lock that this very thread
has, and that is not an RLock.

Truth: {"expect": "deadlock",
        "edges": [["main", "py-lock", "main"]],
        "behind": ["heartbeat"]}
"""

import signal
import threading
from types import FrameType
from typing import Optional

from tests.precision.programs import scene

log_lock = threading.Lock()
messages = []


def log(message: str) -> None:
    with log_lock:
        messages.append(message)
        if message == "lock owner":
            scene.thread("heartbeat", log, "heartbeat")
            scene.ready()
            signal.raise_signal(signal.SIGUSR1)


def reap(number: int, frame: Optional[FrameType]) -> None:
    log("reaped")


if __name__ == "__main__":
    signal.signal(signal.SIGUSR1, reap)
    log("lock owner")
