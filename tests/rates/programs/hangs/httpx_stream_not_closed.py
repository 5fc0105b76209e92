"""httpx with one connection: a streamed response is open, and the next request waits for the pool. After encode/httpcore#550.

Truth: {"expect": "hang", "says": "free connection", "statuses": [1, 5], "packages": ["httpx"]}
"""

import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "10000000")
        self.end_headers()
        self.wfile.write(bytes(10000000))

    def log_message(self, *args):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_address[1]}/"
client = httpx.Client(limits=httpx.Limits(max_connections=1), timeout=None)
first = client.send(client.build_request("GET", url), stream=True)
print('{"pid": %d}' % os.getpid(), flush=True)
client.get(url)
