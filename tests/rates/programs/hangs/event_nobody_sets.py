"""MainThread waits for an Event that no code sets any more; the other threads are a server's, and idle.

Truth: {"expect": "hang", "says": "event|ready", "statuses": [1, 5], "core": true}
"""

import os
import socketserver
import threading

ready = threading.Event()


class Handler(socketserver.BaseRequestHandler):
    def handle(self):
        self.request.sendall(b"hello\n")


server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, name="server", daemon=True).start()
print('{"pid": %d}' % os.getpid(), flush=True)
ready.wait()
