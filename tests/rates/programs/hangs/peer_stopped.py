"""A client without a timeout asks a server on this machine whose process is stopped.

Truth: {"expect": "hang", "says": "stopped", "statuses": [5]}
"""

import os
import signal
import socket

server = socket.create_server(("127.0.0.1", 0))
child = os.fork()
if child == 0:
    connection, _ = server.accept()
    while connection.recv(100):
        connection.sendall(b"hello\n")
    os._exit(0)
with socket.create_connection(server.getsockname()) as connection:
    server.close()
    connection.sendall(b"first\n")
    connection.recv(100)
    os.kill(child, signal.SIGSTOP)
    os.waitpid(child, os.WUNTRACED)
    connection.sendall(b"second\n")
    print('{"pid": %d}' % os.getpid(), flush=True)
    connection.recv(100)
