"""xorq-labs/xorq#2243: tasks of a thread pool wait for tasks of the same pool, and all its threads wait.

A supervisor task submits its parts to the pool that it runs in and waits for their results; no thread is left that
could run them.

Truth: {"expect": "deadlock",
        "edges": [["pool-1", "py-condition", "pool-1"], ["pool-1", "py-condition", "pool-2"],
                  ["pool-2", "py-condition", "pool-1"], ["pool-2", "py-condition", "pool-2"]],
        "behind": ["main"], "waits": [["main", "py-condition", "pool-1"]]}
"""

import concurrent.futures
import threading

from tests.precision.programs import scene

both = threading.Barrier(2)


def supervise(number: int) -> int:
    scene.enrol(f"pool-{number}")
    both.wait()  # no thread is left that could run the parts
    parts = [pool.submit(pow, number, part) for part in range(2)]
    if both.wait() == 0:
        scene.ready()
    return sum(part.result() for part in parts)


if __name__ == "__main__":
    pool = concurrent.futures.ThreadPoolExecutor(2)
    exchanges = [pool.submit(supervise, number) for number in (1, 2)]
    print([exchange.result() for exchange in exchanges])
