"""rogerbinns/apsw#551: SQLite calls Python functions back from many threads, each with a connection of its own.

A connection shared by threads does deadlock, and not only as in `sqlite_create_function`.

Truth: {"expect": "healthy"}
"""

import sqlite3
import threading

from tests.precision.programs import scene

lock = threading.Lock()


def double(number: int) -> int:
    with lock:
        return number * 2


def work() -> None:
    connection = sqlite3.connect(":memory:")
    connection.create_function("double", 1, double)
    while not scene.stopping.is_set():
        assert connection.execute("select double(21)").fetchone() == (42,)


if __name__ == "__main__":
    threads = [scene.thread(f"thread-{number}", work) for number in range(5)]
    scene.ready()
    for thread in threads:
        thread.join()
