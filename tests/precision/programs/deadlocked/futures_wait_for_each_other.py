"""python/cpython#141617, the deadlock example of the documentation: two futures wait for each other.

Each of two tasks waits for the result of the other. No future records which thread will set it; the stack of a
thread shows which call it runs. The main thread joins one of the two.

Truth: {"expect": "deadlock",
        "edges": [["a", "py-condition", "b"], ["b", "py-condition", "a"]],
        "behind": ["main"],
        "waits": [["main", "thread-exit|py-lock|py-event|semaphore", "a"],
                  ["main", "thread-exit|py-lock|py-event|semaphore", "b"]]}
"""

import concurrent.futures
import threading

from tests.precision.programs import scene

futures: "dict[str, concurrent.futures.Future[int]]" = {}
submitted = threading.Event()
both = threading.Barrier(2)


def wait_on(name: str, other: str) -> int:
    scene.enrol(name)
    submitted.wait()
    if both.wait() == 0:
        scene.ready()
    return futures[other].result()


if __name__ == "__main__":
    with concurrent.futures.ThreadPoolExecutor(2) as executor:
        futures["a"] = executor.submit(wait_on, "a", "b")
        futures["b"] = executor.submit(wait_on, "b", "a")
        submitted.set()
