"""A worker waits for its wake event in a method; MainThread waits for a stop event; a thread takes requests.

Truth: {"expect": "healthy"}
"""

import os
import socket
import threading


class Worker:
    def __init__(self):
        self.wake = threading.Event()

    def wait(self):
        self.wake.wait()
        self.wake.clear()

    def run(self):
        while True:
            self.wait()


def accept():
    while True:
        server.accept()[0].close()
        worker.wake.set()


worker = Worker()
server = socket.create_server(("127.0.0.1", 0))
threading.Thread(target=worker.run, name="worker", daemon=True).start()
threading.Thread(target=accept, name="acceptor", daemon=True).start()
print('{"pid": %d}' % os.getpid(), flush=True)
threading.Event().wait()
