"""The handler of an HTTP server with one thread asks its own server.

Truth: {"expect": "hang", "says": "do_GET|itself|own|own process|this process", "statuses": [1]}
"""

import http.server
import os
import threading
import urllib.request


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/page":
            urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/part").read()
        self.send_response(200)
        self.end_headers()


server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, name="server").start()
print('{"pid": %d}' % os.getpid(), flush=True)
urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/page").read()
