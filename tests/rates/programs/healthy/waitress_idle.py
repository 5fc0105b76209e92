"""A waitress server without a client.

Truth: {"expect": "healthy", "packages": ["waitress"]}
"""

import os

import waitress

server = waitress.create_server(lambda environ, start_response: [], listen="127.0.0.1:0")
print('{"pid": %d}' % os.getpid(), flush=True)
server.run()
