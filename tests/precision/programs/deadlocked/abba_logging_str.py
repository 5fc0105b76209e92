"""storaged-project/blivet#1500: the lock of a logging handler against that of the objects that are logged.

One thread logs under the program's RLock. Another logs an object, and `str()` of it, which the handler calls under its
own lock, takes the program's.

Truth: {"expect": "deadlock",
        "edges": [["storage", "py-rlock", "main"], ["main", "py-rlock", "storage"]]}
"""

import logging
import os
import threading

from tests.precision.programs import scene

blivet_lock = threading.RLock()
formatting = threading.Event()


class Device:
    def __str__(self) -> str:
        formatting.set()
        scene.await_held(blivet_lock)
        with blivet_lock:
            return "never returned"


def change_storage() -> None:
    formatting.wait()
    with blivet_lock:
        logging.info("changed")


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, stream=open(os.devnull, "w"))  # noqa: SIM115
    scene.thread("storage", change_storage)
    scene.ready()
    logging.info("found %s", Device())
