"""An echo server with selectors, and two clients that ask it every 5 ms.

Truth: {"expect": "healthy"}
"""

import os
import selectors
import socket
import threading
import time

server = socket.create_server(("127.0.0.1", 0))
selector = selectors.DefaultSelector()
selector.register(server, selectors.EVENT_READ)


def ask():
    with socket.create_connection(server.getsockname()) as connection:
        while True:
            connection.sendall(b"ping")
            connection.recv(4)
            time.sleep(0.005)


for n in range(2):
    threading.Thread(target=ask, name=f"client-{n}", daemon=True).start()
print('{"pid": %d}' % os.getpid(), flush=True)
while True:
    for key, _ in selector.select():
        if key.fileobj is server:
            connection, _ = server.accept()
            selector.register(connection, selectors.EVENT_READ)
        else:
            key.fileobj.sendall(key.fileobj.recv(100))
