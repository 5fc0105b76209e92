"""A client tries to connect again and again to a port where nobody listens.

Truth: {"expect": "hang", "says": "again.* in connect ", "statuses": [5]}
"""

import os
import socket
import time


def connect():
    connection = None
    while connection is None:
        try:
            connection = socket.create_connection(("127.0.0.1", 1))
        except OSError:
            time.sleep(0.5)
    return connection


print('{"pid": %d}' % os.getpid(), flush=True)
connect()
