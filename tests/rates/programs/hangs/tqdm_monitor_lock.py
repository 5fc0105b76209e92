"""The monitor thread of tqdm wants the write lock which the main thread has while it waits for it at exit. After tqdm/tqdm#1751.

Truth: {"expect": "hang", "says": "tqdm_monitor|TqdmDefaultWriteLock", "statuses": [1], "packages": ["tqdm"]}
"""

import os
import time

import tqdm

tqdm.tqdm.monitor_interval = 0.05
bar = tqdm.tqdm(range(10), file=open(os.devnull, "w"))
next(iter(bar))
with tqdm.tqdm.get_lock():
    time.sleep(0.3)
    print('{"pid": %d}' % os.getpid(), flush=True)
    tqdm.tqdm.monitor.exit()
