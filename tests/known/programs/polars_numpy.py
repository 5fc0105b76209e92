"""A thread converts a data frame to numpy while another one calls Python for each element.

``alike``: the function that is called for each element waits for a lock of the program.
"""
import json
import os
import sys
import threading
import time
import warnings

import polars

warnings.filterwarnings("ignore")
frame = polars.DataFrame({"a": list(range(100)), "b": [i % 2 for i in range(100)]})
stop = threading.Event()
alike = sys.argv[1:] == ["alike"]
lock = threading.Lock()
lock.acquire()


def to_numpy():
    while not stop.is_set() and not alike:
        frame.to_numpy()


def called(x):
    if alike:
        lock.acquire()
    return x + 1


def map_elements():
    while not stop.is_set():
        frame.with_columns(c=polars.col("a").map_elements(called, return_dtype=polars.Int64),
                           d=polars.col("b").map_elements(called, return_dtype=polars.Int64))


print(json.dumps({"pid": os.getpid()}), flush=True)
threads = [threading.Thread(target=to_numpy), threading.Thread(target=map_elements)]
for thread in threads:
    thread.start()
time.sleep(600 if alike else 3)
stop.set()
for thread in threads:
    thread.join()
