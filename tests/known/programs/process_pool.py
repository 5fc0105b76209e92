"""A process pool of one worker that ends after two calls; ``alike``: one whose call never returns."""
import json
import multiprocessing
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor

if __name__ == "__main__":
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, max_tasks_per_child=2, mp_context=spawn) as pool:
        alike = sys.argv[1:] == ["alike"]
        calls = [pool.submit(time.sleep, 600)] if alike else [pool.submit(os.getpid) for _ in range(10)]
        print(json.dumps({"pid": os.getpid()}), flush=True)
        for call in calls:
            call.result()
