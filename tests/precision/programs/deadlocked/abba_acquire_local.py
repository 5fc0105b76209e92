"""Two locks in either order with bare `acquire` and `release`: one a closure's variable, one a global variable.

Truth: {"expect": "deadlock", "pythons": ["3.9", "3.11", "3.12", "3.13", "debian"],
        "edges": [["reader", "py-lock", "writer"], ["writer", "py-lock", "reader"]],
        "behind": ["main"]}
"""

import threading
from collections.abc import Callable

from tests.precision.programs import scene

table = threading.Lock()
both = threading.Barrier(2)


def functions() -> tuple[Callable[[], None], Callable[[], None]]:
    row = threading.Lock()

    def read() -> None:
        table.acquire()
        try:
            both.wait()
            row.acquire()
            row.release()
        except ValueError:
            print("never printed")
        finally:
            table.release()

    def write() -> None:
        if not row.acquire(blocking=False):
            raise RuntimeError("never raised")
        both.wait()
        table.acquire()
        table.release()
        row.release()

    return read, write


if __name__ == "__main__":
    read, write = functions()
    threads = [scene.thread("reader", read), scene.thread("writer", write)]
    scene.ready()
    for thread in threads:
        thread.join()
