"""The handler of a file event joins the observer's emitter, which waits to put into the queue that the handler empties.

Truth: {"expect": "hang", "says": "watchdog|observer|handler|on_any_event|join", "statuses": [1, 5], "packages": ["watchdog"]}
"""

import os
import threading

from watchdog.events import FileSystemEventHandler
from watchdog.observers import Observer

stopped = threading.Event()


class Handler(FileSystemEventHandler):
    def on_any_event(self, event):
        stopped.wait()


observer = Observer()
observer.schedule(Handler(), ".")
observer.start()
open("new-file", "w").close()
print('{"pid": %d}' % os.getpid(), flush=True)
observer.join()
