"""A hook of atexit stops a background thread with an Event, but joins it before that.

Truth: {"expect": "hang", "says": "flusher|close_exporter", "statuses": [1, 5], "core": true}
"""

import atexit
import os
import threading

stop = threading.Event()
thread = threading.Thread(target=stop.wait, name="flusher", daemon=True)


def close_exporter():
    thread.join()
    stop.set()


thread.start()
atexit.register(close_exporter)
print('{"pid": %d}' % os.getpid(), flush=True)
