"""A handler of a socketserver calls server.shutdown() in the thread of serve_forever(), which waits for that thread.

The documentation of socketserver warns of it.

Truth: {"expect": "hang", "says": "shutdown|serve_forever|handle", "statuses": [1], "core": true}
"""

import os
import socket
import socketserver
import threading


class Handler(socketserver.BaseRequestHandler):
    def handle(self):
        self.server.shutdown()


server = socketserver.TCPServer(("127.0.0.1", 0), Handler)
thread = threading.Thread(target=server.serve_forever, name="server")
thread.start()
client = socket.create_connection(server.server_address)
print('{"pid": %d}' % os.getpid(), flush=True)
thread.join()
