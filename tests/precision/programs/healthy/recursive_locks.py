"""box/ClusterRunner#48, after the fix: a handler that logs while it handles, with an RLock taken again and again.

Truth: {"expect": "healthy"}
"""

import logging
import os

from tests.precision.programs import scene


class Rotating(logging.StreamHandler):  # type: ignore[type-arg]
    turns = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.turns += 1
        if self.turns % 10 == 0:
            logging.warning("rotated")
        super().emit(record)


def work() -> None:
    while not scene.stopping.is_set():
        logging.warning("from %s", work)


if __name__ == "__main__":
    logging.getLogger().addHandler(Rotating(open(os.devnull, "w")))  # noqa: SIM115
    threads = [scene.thread(f"thread-{number}", work) for number in range(6)]
    scene.ready()
    for thread in threads:
        thread.join()
