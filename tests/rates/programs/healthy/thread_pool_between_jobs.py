"""A ThreadPoolExecutor whose workers wait for the next job, which comes every minute.

Truth: {"expect": "healthy"}
"""

import os
import time
from concurrent.futures import ThreadPoolExecutor

with ThreadPoolExecutor(4) as pool:
    list(pool.map(abs, range(20)))
    print('{"pid": %d}' % os.getpid(), flush=True)
    while True:
        time.sleep(60)
        list(pool.map(abs, range(20)))
