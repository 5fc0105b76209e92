"""watchdog observes a folder in which nothing changes; MainThread joins the observer.

Truth: {"expect": "healthy", "packages": ["watchdog"]}
"""

import os

from watchdog.events import FileSystemEventHandler
from watchdog.observers import Observer

observer = Observer()
observer.schedule(FileSystemEventHandler(), ".")
observer.start()
print('{"pid": %d}' % os.getpid(), flush=True)
observer.join()
