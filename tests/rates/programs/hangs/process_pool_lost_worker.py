"""ProcessPoolExecutor with max_tasks_per_child does not start a new worker, and eight calls stay pending.

After python/cpython#115634.

Truth: {"expect": "hang", "says": "pool|worker", "statuses": [1], "known": "python/cpython#115634", "python": "3.11"}
"""

import os
from concurrent.futures import ProcessPoolExecutor


def main():
    with ProcessPoolExecutor(1, max_tasks_per_child=2) as pool:
        pending = [pool.submit(os.getpid) for _ in range(10)]
        pending[1].result()
        print('{"pid": %d}' % os.getpid(), flush=True)
        for one in pending:
            one.result()


if __name__ == "__main__":
    main()
