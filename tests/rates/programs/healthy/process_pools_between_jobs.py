"""A ProcessPoolExecutor and a multiprocessing.Pool whose workers wait for the next job.

Truth: {"expect": "healthy"}
"""

import multiprocessing
import os
import time
from concurrent.futures import ProcessPoolExecutor

if __name__ == "__main__":
    with ProcessPoolExecutor(2) as executor, multiprocessing.Pool(2) as pool:
        list(executor.map(abs, range(9)))
        pool.map(abs, range(9))
        print('{"pid": %d}' % os.getpid(), flush=True)
        while True:
            time.sleep(60)
            pool.map(abs, range(9))
