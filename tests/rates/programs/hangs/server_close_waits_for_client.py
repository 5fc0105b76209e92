"""server_close() of a threading server joins the thread of a client that stays connected and sends nothing.

After bpo-31233, since when server_close() waits for these threads.

Truth: {"expect": "hang", "says": "process_request_thread|handle|client|127\\.0\\.0\\.1", "statuses": [5, 1]}
"""

import os
import socket
import socketserver
import threading


class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        started.set()
        for line in self.rfile:
            self.wfile.write(line)


started = threading.Event()
server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, name="server", daemon=True).start()
child = os.fork()
if child == 0:
    client = socket.create_connection(server.server_address)
    server.socket.close()
    threading.Event().wait()
started.wait()
print('{"pid": %d}' % os.getpid(), flush=True)
server.shutdown()
server.server_close()
