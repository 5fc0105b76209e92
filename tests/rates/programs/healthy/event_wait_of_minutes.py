"""A cleaner waits with a timeout of ten minutes for the Event that ends it; MainThread joins it.

Truth: {"expect": "healthy"}
"""

import os
import threading

end = threading.Event()


def clean():
    while not end.wait(600):
        pass


thread = threading.Thread(target=clean, name="cleaner")
thread.start()
print('{"pid": %d}' % os.getpid(), flush=True)
thread.join()
