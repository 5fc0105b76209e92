"""An HTTP server in a thread; MainThread waits until it is asked to end.

Truth: {"expect": "healthy"}
"""

import http.server
import os
import signal
import threading

signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
threading.Thread(target=server.serve_forever, name="http").start()
print('{"pid": %d}' % os.getpid(), flush=True)
signal.sigwait({signal.SIGTERM})
server.shutdown()
