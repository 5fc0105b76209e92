"""A call of joblib's threading backend waits for a lock of the caller, which waits for the calls.

Truth: {"expect": "hang", "says": "MainThread.*holds.*lock", "statuses": [1, 5], "packages": ["joblib"]}
"""

import os
import threading

import joblib

lock = threading.Lock()


def work(n):
    with lock:
        return n


with lock:
    print('{"pid": %d}' % os.getpid(), flush=True)
    joblib.Parallel(n_jobs=2, backend="threading")(joblib.delayed(work)(n) for n in range(4))
