"""A supervisor waits for its child, a server without a client.

Truth: {"expect": "healthy"}
"""

import os
import subprocess
import sys

SERVER = "import http.server as h; h.HTTPServer(('127.0.0.1', 0), h.SimpleHTTPRequestHandler).serve_forever()"
child = subprocess.Popen([sys.executable, "-c", SERVER])
print('{"pid": %d}' % os.getpid(), flush=True)
sys.exit(child.wait())
