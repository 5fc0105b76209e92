"""DataDog/dd-trace-py#18900: a hook that runs in the child of fork logs, while a thread of the parent was logging.

`logging` makes its locks anew in the child, but a hook that was registered before that of `logging` runs before it. The
lock is an RLock and names its owner, which is a thread of the parent.

Truth: {"expect": "deadlock", "standstill": true,
        "edges": [["main", "py-rlock|semaphore", null]]}
"""

import os
import threading

from tests.precision.programs import scene

inside = threading.Event()


def in_child() -> None:
    scene.ready()
    logging.warning("restarted in the child")


os.register_at_fork(after_in_child=in_child)

import logging  # noqa: E402  registers its own hook


class Slow(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        inside.set()
        scene.stopping.wait()


if __name__ == "__main__":
    logging.getLogger().addHandler(Slow())
    scene.thread("worker", logging.warning, "from the worker")
    inside.wait()
    child = os.fork()
    if child:
        os.waitpid(child, 0)
