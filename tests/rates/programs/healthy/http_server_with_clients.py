"""A server of http.server with three clients in the same process, which ask every 10 ms.

Truth: {"expect": "healthy"}
"""

import http.server
import os
import threading
import time
import urllib.request


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *args):
        pass


def ask():
    while True:
        urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/").read()
        time.sleep(0.01)


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
for n in range(3):
    threading.Thread(target=ask, name=f"client-{n}", daemon=True).start()
print('{"pid": %d}' % os.getpid(), flush=True)
server.serve_forever()
