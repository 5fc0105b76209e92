"""MainThread waits for an Event that a request of the server's thread sets.

Truth: {"expect": "healthy"}
"""

import os
import socketserver
import threading

stop = threading.Event()


class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        if self.rfile.readline() == b"stop\n":
            stop.set()


server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, name="server", daemon=True).start()
print('{"pid": %d}' % os.getpid(), flush=True)
stop.wait()
