"""new-usemame/Calibre-Web-NextGen#377: SQLite's mutex and the GIL, with only the `sqlite3` module.

A query runs without the GIL and under the mutex of the connection, and calls a Python function. Another thread adds
a function to the same connection, which takes that mutex with the GIL held.

Truth: {"expect": "deadlock", "pythons": ["3.11", "3.13"],
        "edges": [["main", "mutex", "query"], ["query", "gil", "main"]]}
"""

import sqlite3
import threading

from tests.precision.programs import scene

called = threading.Event()


def compute() -> int:
    called.set()
    number = 1
    while True:  # until another thread takes the GIL and keeps it
        number = number * 5 % 1000003


if __name__ == "__main__":
    connection = sqlite3.connect(":memory:", check_same_thread=False)
    connection.create_function("compute", 0, compute)
    scene.thread("query", connection.execute, "select compute()")
    called.wait()
    scene.ready()
    connection.create_function("other", 0, compute)
