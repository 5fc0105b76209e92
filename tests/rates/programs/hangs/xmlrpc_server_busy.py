"""A client calls a server with one thread, which waits for a lock file of another program with flock().

Truth: {"expect": "hang", "says": "flock|file lock|batch\\.lock|child|process \\d+", "statuses": [5, 1]}
"""

import fcntl
import os
import signal
import xmlrpc.client
import xmlrpc.server

taken, tell = os.pipe()
if os.fork() == 0:
    file = open("batch.lock", "w")
    fcntl.flock(file, fcntl.LOCK_EX)
    os.write(tell, b"x")
    signal.pause()
os.read(taken, 1)


def export():
    with open("batch.lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
    return True


server = xmlrpc.server.SimpleXMLRPCServer(("127.0.0.1", 0), logRequests=False)
server.register_function(export)
if os.fork() == 0:
    server.serve_forever()
print('{"pid": %d}' % os.getpid(), flush=True)
xmlrpc.client.ServerProxy(f"http://127.0.0.1:{server.server_address[1]}").export()
