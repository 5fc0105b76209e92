"""MainThread waits for an Event that the handler of SIGTERM sets; two workers wait for jobs in a socket.

Truth: {"expect": "healthy"}
"""

import os
import signal
import socket
import threading

stop = threading.Event()
server = socket.create_server(("127.0.0.1", 0))


def work():
    while True:
        connection, _ = server.accept()
        connection.close()


signal.signal(signal.SIGTERM, lambda number, frame: stop.set())
for n in range(2):
    threading.Thread(target=work, name=f"worker-{n}", daemon=True).start()
print('{"pid": %d}' % os.getpid(), flush=True)
stop.wait()
