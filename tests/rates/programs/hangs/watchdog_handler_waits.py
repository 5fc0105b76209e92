"""The handler of a file event waits for an Event that nobody sets; no further events are handled.

Truth: {"expect": "hang", "says": "on_any_event", "statuses": [1, 5], "packages": ["watchdog"]}
"""

import os
import threading

from watchdog.events import FileSystemEventHandler
from watchdog.observers import Observer


class Handler(FileSystemEventHandler):
    def __init__(self):
        self.reloaded = threading.Event()

    def on_any_event(self, event):
        self.reloaded.wait()


observer = Observer()
observer.schedule(Handler(), ".")
observer.start()
open("new-file", "w").close()
print('{"pid": %d}' % os.getpid(), flush=True)
observer.join()
