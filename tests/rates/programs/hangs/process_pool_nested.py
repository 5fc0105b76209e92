"""The two workers of a pool of processes wait for a child of their own which reads a pipe that the other one keeps open.

Truth: {"expect": "hang", "says": "worker|child|pool|pipe", "statuses": [1, 5]}
"""

import os
import subprocess
from concurrent.futures import ProcessPoolExecutor


def sort(n):
    sorter = subprocess.Popen(["sort"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    sorter.stdin.write(b"line\n")
    sorter.stdin.flush()
    return sorter.stdout.read()


if __name__ == "__main__":
    with ProcessPoolExecutor(2) as pool:
        calls = [pool.submit(sort, n) for n in range(2)]
        print('{"pid": %d}' % os.getpid(), flush=True)
        [call.result() for call in calls]
