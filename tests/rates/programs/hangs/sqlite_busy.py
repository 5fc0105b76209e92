"""A thread holds an exclusive transaction and waits for an Event that nobody sets; MainThread polls for the database.

Truth: {"expect": "hang", "says": "sqlite|app\\.db", "statuses": [1, 5], "core": true}
"""

import os
import sqlite3
import threading

connection = sqlite3.connect("app.db", isolation_level=None, check_same_thread=False)
connection.execute("create table t (x)")
begun = threading.Event()


def import_all():
    connection.execute("begin exclusive")
    begun.set()
    threading.Event().wait()


def insert():
    own = sqlite3.connect("app.db", timeout=10**6, isolation_level=None)
    own.execute("insert into t values (2)")


threading.Thread(target=import_all, name="importer", daemon=True).start()
begun.wait()
print('{"pid": %d}' % os.getpid(), flush=True)
insert()
