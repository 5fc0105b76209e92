"""Another process holds a write transaction and is stopped; this one polls for the database, with a long timeout.

Truth: {"expect": "hang", "says": "sqlite|app\\.db|stopped", "statuses": [5]}
"""

import os
import signal
import sqlite3

with sqlite3.connect("app.db") as connection:
    connection.execute("create table t (x)")
connection.close()
begun, tell = os.pipe()
if os.fork() == 0:
    own = sqlite3.connect("app.db", isolation_level=None)
    own.execute("begin exclusive")
    os.write(tell, b"x")
    os.kill(os.getpid(), signal.SIGSTOP)
os.read(begun, 1)
print('{"pid": %d}' % os.getpid(), flush=True)
sqlite3.connect("app.db", timeout=10**6).execute("insert into t values (2)")
