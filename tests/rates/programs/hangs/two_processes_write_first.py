"""Two processes over a socketpair: each sends more than the buffers hold before it receives.

Truth: {"expect": "hang", "says": "socket|pipe|each other|child", "statuses": [1]}
"""

import os
import socket

here, there = socket.socketpair()
child = os.fork()
if child == 0:
    here.close()
    there.sendall(bytes(10**7))
    there.recv(1)
    os._exit(0)
there.close()
print('{"pid": %d}' % os.getpid(), flush=True)
here.sendall(bytes(10**7))
