"""requests without a timeout: a server on this machine took the request and does not answer.

After psf/requests#4624.

Truth: {"expect": "hang", "says": "127\\.0\\.0\\.1|socket|process \\d+", "statuses": [5], "packages": ["requests"]}
"""

import os
import socket
import time

import requests

server = socket.create_server(("127.0.0.1", 0))
port = server.getsockname()[1]
if os.fork() == 0:
    connection, _ = server.accept()
    time.sleep(1e6)
server.close()


def fetch_token():
    return requests.get(f"http://127.0.0.1:{port}/token").json()


print('{"pid": %d}' % os.getpid(), flush=True)
fetch_token()
