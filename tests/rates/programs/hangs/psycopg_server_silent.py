"""psycopg connects to a server that takes the connection and never answers.

Truth: {"expect": "hang", "says": "127\\.0\\.0\\.1|socket|connect|process \\d+", "statuses": [5], "packages": ["psycopg"]}
"""

import os
import socket
import time

import psycopg

server = socket.create_server(("127.0.0.1", 0))
port = server.getsockname()[1]
if os.fork() == 0:
    connection, _ = server.accept()
    time.sleep(1e6)
server.close()
print('{"pid": %d}' % os.getpid(), flush=True)
psycopg.connect(f"host=127.0.0.1 port={port} user=app dbname=app connect_timeout=20000")
