"""A TCP server without a client.

Truth: {"expect": "healthy"}
"""

import os
import socketserver


class Handler(socketserver.BaseRequestHandler):
    def handle(self):
        self.request.sendall(b"hello\n")


with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
    print('{"pid": %d}' % os.getpid(), flush=True)
    server.serve_forever()
