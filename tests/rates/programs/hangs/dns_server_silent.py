"""Three threads look up names, and the name server of /etc/resolv.conf does not answer. Needs a mount namespace.

Truth: {"expect": "hang", "says": "name server|dns|getaddrinfo|resolver|lookup", "statuses": [5]}
"""

import ctypes
import os
import socket
import threading

libc = ctypes.CDLL(None)
silent = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
try:
    silent.bind(("127.0.0.153", 53))
except OSError:
    silent = None
with open("resolv.conf", "w") as file:
    file.write("nameserver 127.0.0.153\noptions timeout:30 attempts:5\n")
CLONE_NEWNS, MS_BIND, MS_PRIVATE_ALL = 0x20000, 0x1000, 0x44000
if (silent is None or libc.unshare(CLONE_NEWNS) or libc.mount(None, b"/", None, MS_PRIVATE_ALL, None)
        or libc.mount(b"resolv.conf", b"/etc/resolv.conf", None, MS_BIND, None)):
    print('{"skip": "needs a mount namespace and port 53"}', flush=True)
    raise SystemExit


def lookup(host):
    return socket.getaddrinfo(host, 443)


for n in range(3):
    threading.Thread(target=lookup, args=(f"api{n}.example.org",), name=f"lookup-{n}").start()
print('{"pid": %d}' % os.getpid(), flush=True)
