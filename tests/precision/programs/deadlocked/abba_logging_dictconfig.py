"""python/cpython#96727: `logging.config.dictConfig` against a handler that asks for a logger.

`dictConfig` takes the lock of the module and then those of the handlers that it closes; a custom `emit` runs under the
lock of its handler and calls `getLogger`, which takes the lock of the module.

Truth: {"expect": "deadlock",
        "edges": [["configurer", "py-rlock", "emitter"], ["emitter", "py-rlock", "configurer"]],
        "behind": ["main"]}
"""

import logging
import logging.config
import threading

from tests.precision.programs import scene

emitting = threading.Event()


class Sending(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        emitting.set()
        scene.await_held(logging._lock)  # type: ignore[attr-defined]
        logging.getLogger("library that sends")


def configure() -> None:
    emitting.wait()
    logging.config.dictConfig({"version": 1})


if __name__ == "__main__":
    logging.getLogger().addHandler(Sending())
    threads = [scene.thread("configurer", configure), scene.thread("emitter", logging.warning, "sent")]
    scene.ready()
    for thread in threads:
        thread.join()
