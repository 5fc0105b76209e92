"""A consumer checks its condition outside of the lock: the only notify came before the wait. A server thread is idle.

Truth: {"expect": "hang", "says": "condition|consume|available", "statuses": [1, 5], "core": true}
"""

import os
import socket
import threading

available = threading.Condition()
items = []
server = socket.create_server(("127.0.0.1", 0))


def accept():
    while True:
        server.accept()[0].close()


def produce():
    with available:
        items.append(1)
        available.notify()


def consume():
    if not items:
        thread = threading.Thread(target=produce)
        thread.start()
        thread.join()
        with available:
            available.wait()


threading.Thread(target=accept, name="acceptor", daemon=True).start()
print('{"pid": %d}' % os.getpid(), flush=True)
consume()
