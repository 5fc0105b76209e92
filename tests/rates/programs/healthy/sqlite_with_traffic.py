"""Three threads write to one SQLite database in short transactions, and wait for each other in the busy handler.

Truth: {"expect": "healthy"}
"""

import os
import sqlite3
import threading

with sqlite3.connect("app.db") as connection:
    connection.execute("create table t (x)")
connection.close()


def write():
    own = sqlite3.connect("app.db", timeout=60, isolation_level=None)
    while True:
        own.execute("insert into t values (1)")


for n in range(3):
    threading.Thread(target=write, name=f"writer-{n}").start()
print('{"pid": %d}' % os.getpid(), flush=True)
