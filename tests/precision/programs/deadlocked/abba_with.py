"""apache/paimon#9267, the review that led to it: two locks taken in either order, with plain `with` statements.

The package's own lock for lazy imports is taken before that of a module in one thread and after it in another. Neither
is an RLock, so that no owner is recorded. The main thread waits for both threads.

Truth: {"expect": "deadlock", "pythons": ["3.9", "3.11", "3.12", "3.13", "debian"],
        "edges": [["one", "py-lock", "two"], ["two", "py-lock", "one"]],
        "behind": ["main"]}
"""

import threading

from tests.precision.programs import scene

package, module = threading.Lock(), threading.Lock()
both = threading.Barrier(2)


def resolve() -> None:
    with package:
        both.wait()
        with module:
            print("never printed")


def load() -> None:
    with module:
        both.wait()
        with package:
            print("never printed")


if __name__ == "__main__":
    threads = [scene.thread("one", resolve), scene.thread("two", load)]
    scene.ready()
    for thread in threads:
        thread.join()
