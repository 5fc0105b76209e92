"""Threads convert one data frame; ``alike``: the program has the GIL in a sort of a list while they wait for it."""
import ctypes
import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor

import polars

frame = polars.concat([polars.DataFrame({"a": [5234.523] * 100_000})] * 2, rechunk=False)
alike = sys.argv[1:] == ["alike"]


def convert():
    frame.to_pandas()


def sleep_with_gil():
    ctypes.PyDLL(None).sleep(600)


print(json.dumps({"pid": os.getpid()}), flush=True)
with ThreadPoolExecutor(10) as pool:
    if alike:
        frame.rechunk().to_pandas()
        pool.submit(sleep_with_gil)
    for call in [pool.submit(convert) for _ in range(100)]:
        call.result()
