"""A client without a timeout asks a server on this machine that took the connection and does nothing with it.

Truth: {"expect": "hang", "says": "127\\.0\\.0\\.1|backend|socket|peer|process \\d+", "statuses": [5]}
"""

import os
import socket
import subprocess
import sys

SERVER = """
import socket, time
server = socket.socket()
server.bind(("127.0.0.1", 0))
server.listen()
print(server.getsockname()[1], flush=True)
connection, _ = server.accept()
time.sleep(1e6)
"""
backend = subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE)
with socket.create_connection(("127.0.0.1", int(backend.stdout.readline()))) as connection:
    connection.sendall(b"get\n")
    print('{"pid": %d}' % os.getpid(), flush=True)
    connection.recv(100)
