"""GoogleCloudPlatform/opentelemetry-operations-python#405: a lock is held while a thread that needs it is joined.

`dictConfig` holds the RLock of `logging` and shuts the old handlers down; that waits for a thread that refreshes
credentials, which logs.

Truth: {"expect": "deadlock", "pythons": ["3.9", "3.11", "3.12", "3.13"],
        "edges": [["main", "thread-exit|py-lock|py-event|semaphore", "refresher"], ["refresher", "py-rlock", "main"]],
        "behind": ["request"]}
"""

import logging
import logging.config

from tests.precision.programs import scene


def refresh() -> None:
    logging.getLogger("google.auth")


class Exporting(logging.Handler):
    def close(self) -> None:
        thread = scene.thread("refresher", refresh)
        scene.thread("request", refresh)
        scene.ready()
        thread.join()


if __name__ == "__main__":
    logging.getLogger().addHandler(Exporting())
    logging.config.dictConfig({"version": 1})
