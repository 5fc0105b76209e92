"""A thread asks a server that is busy elsewhere, with a timeout of ten minutes and with the cache's lock held.

Truth: {"expect": "hang", "says": "refresh.*(cache_lock|recv|socket)", "never": "DEADLOCK", "statuses": [5], "core": true}
"""

import os
import socket
import subprocess
import sys
import threading

cache_lock = threading.Lock()
asking = threading.Event()
SERVER = """
import socket, sys, time
server = socket.socket()
server.bind(("127.0.0.1", 0))
server.listen()
print(server.getsockname()[1], flush=True)
connection, _ = server.accept()
time.sleep(1e6)
"""


def refresh(port):
    with cache_lock, socket.create_connection(("127.0.0.1", port), timeout=600) as connection:
        connection.sendall(b"get\n")
        asking.set()
        connection.recv(100)


def lookup():
    with cache_lock:
        return 1


server = subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE)
threading.Thread(target=refresh, args=(int(server.stdout.readline()),), name="refresh").start()
asking.wait()
for n in range(3):
    threading.Thread(target=lookup, name=f"lookup-{n}").start()
print('{"pid": %d}' % os.getpid(), flush=True)
