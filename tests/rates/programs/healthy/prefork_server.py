"""A server with three forked workers that wait in accept() of one socket; the parent waits for the end of any of them.

Truth: {"expect": "healthy"}
"""

import os
import socket

server = socket.create_server(("127.0.0.1", 0))
for _ in range(3):
    if os.fork() == 0:
        while True:
            connection, _ = server.accept()
            connection.close()
print('{"pid": %d}' % os.getpid(), flush=True)
os.wait()
