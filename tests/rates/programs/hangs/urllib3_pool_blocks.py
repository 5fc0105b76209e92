"""A pool of urllib3 with one connection and block=True: a streamed response was neither read nor released.

Truth: {"expect": "hang", "says": "pool|queue|urlopen|second", "statuses": [1, 5], "packages": ["urllib3"], "core": true}
"""

import http.server
import os
import threading

import urllib3


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"hello")

    def log_message(self, *args):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, name="server", daemon=True).start()
pool = urllib3.HTTPConnectionPool("127.0.0.1", server.server_port, maxsize=1, block=True)
first = pool.request("GET", "/", preload_content=False)
print('{"pid": %d}' % os.getpid(), flush=True)
second = pool.request("GET", "/")
