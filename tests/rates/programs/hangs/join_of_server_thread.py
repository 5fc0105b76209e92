"""MainThread joins the thread of a server that was never asked to shut down.

Truth: {"expect": "hang", "says": "acceptor", "statuses": [5]}
"""

import os
import socket
import threading

server = socket.create_server(("127.0.0.1", 0))


def accept():
    while True:
        connection, _ = server.accept()
        connection.close()


thread = threading.Thread(target=accept, name="acceptor")
thread.start()
print('{"pid": %d}' % os.getpid(), flush=True)
thread.join()
