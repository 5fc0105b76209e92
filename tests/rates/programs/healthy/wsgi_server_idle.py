"""A server of wsgiref without a client.

Truth: {"expect": "healthy"}
"""

import os
from wsgiref.simple_server import demo_app, make_server

with make_server("127.0.0.1", 0, demo_app) as server:
    print('{"pid": %d}' % os.getpid(), flush=True)
    server.serve_forever()
