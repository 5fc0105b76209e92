"""zodb/relstorage#382: several connections write to one SQLite file; those that find it locked wait and try again.

Truth: {"expect": "healthy"}
"""

import sqlite3
import threading

from tests.precision.programs import scene

commit = threading.Lock()


def work(number: int) -> None:
    connection = sqlite3.connect("data", timeout=60, isolation_level=None)
    while not scene.stopping.is_set():
        connection.execute("begin immediate")
        with commit:
            connection.execute("insert into numbers values (?)", (number,))
        connection.execute("commit")
    connection.close()


if __name__ == "__main__":
    sqlite3.connect("data").execute("create table numbers (number)").connection.close()
    threads = [scene.thread(f"thread-{number}", work, number) for number in range(4)]
    with scene.until_told():
        scene.ready()
        threads[0].join()
    for thread in threads:
        thread.join()
