"""__del__ takes a lock; it runs while its own thread has this lock, because the collector starts there.

After Delgan/loguru#712 and bpo-14976.

Truth: {"expect": "hang", "says": "registry_lock|__del__", "statuses": [1], "core": true}
"""

import gc
import os
import threading

registry_lock = threading.Lock()


class Resource:
    def __init__(self):
        self.own = self

    def __del__(self):
        with registry_lock:
            pass


Resource()
print('{"pid": %d}' % os.getpid(), flush=True)
with registry_lock:
    gc.collect()
