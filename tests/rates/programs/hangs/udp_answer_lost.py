"""A client asked a server by UDP, whose answer was lost, and waits without a timeout.

Truth: {"expect": "hang", "says": "udp|socket|recv", "statuses": [5]}
"""

import os
import socket

server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("127.0.0.1", 0))
if os.fork() == 0:
    server.recvfrom(100)
    server.recvfrom(100)
    os._exit(0)
client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
client.connect(server.getsockname())
server.close()
client.send(b"time?")
print('{"pid": %d}' % os.getpid(), flush=True)
client.recv(100)
