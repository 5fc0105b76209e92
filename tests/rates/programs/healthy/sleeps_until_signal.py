"""MainThread sleeps while a flag is set, which a signal's handler clears; a thread serves.

Truth: {"expect": "healthy"}
"""

import http.server
import os
import signal
import threading
import time

running = True


def stop(number, frame):
    global running
    running = False


signal.signal(signal.SIGTERM, stop)
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler)
threading.Thread(target=server.serve_forever, name="server", daemon=True).start()
print('{"pid": %d}' % os.getpid(), flush=True)
while running:
    time.sleep(1)
