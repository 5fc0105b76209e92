"""A server no longer accepts: its queue of connections is full, and connect() without a timeout waits.

Truth: {"expect": "hang", "says": "connect|127\\.0\\.0\\.1", "statuses": [1, 5]}
"""

import os
import socket

server = socket.socket()
server.bind(("127.0.0.1", 0))
server.listen(0)
waiting = [socket.socket() for _ in range(4)]
for each in waiting:
    each.setblocking(False)
    each.connect_ex(server.getsockname())
print('{"pid": %d}' % os.getpid(), flush=True)
socket.create_connection(server.getsockname())
