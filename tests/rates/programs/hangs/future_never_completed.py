"""A handler waits for a Future of a request that the connection's thread dropped; that thread is idle in select.

Truth: {"expect": "hang", "says": "future|answer", "statuses": [1, 5], "core": true}
"""

import os
import selectors
import socket
import threading
from concurrent.futures import Future

pending = {}
here, there = socket.socketpair()
dropped = threading.Event()


def connection():
    selector = selectors.DefaultSelector()
    selector.register(there, selectors.EVENT_READ)
    while True:
        for _ in selector.select():
            there.recv(100)
            pending.clear()
            dropped.set()


def request():
    answer = pending[1] = Future()
    here.sendall(b"request\n")
    dropped.wait()
    return answer.result()


threading.Thread(target=connection, name="connection", daemon=True).start()
print('{"pid": %d}' % os.getpid(), flush=True)
request()
