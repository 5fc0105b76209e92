"""Greenlets of eventlet that wait for each other, while the process has no deadlock of threads.

After reports on the trackers of eventlet and OpenStack of services whose greenlets take two locks in opposite order,
take a `threading.Lock` twice after monkey-patching, or wait for each other's end: the hub goes on to accept
connections, and no request is answered.

Truth: {"expect": "deadlock", "packages": ["eventlet"], "pythons": ["3.11"], "edges": [], "greenlets": [
        ["bounded_one", "eventlet.semaphore.BoundedSemaphore", "bounded_two"],
        ["bounded_two", "eventlet.semaphore.BoundedSemaphore", "bounded_one"],
        ["takes_twice", "threading.Lock", "takes_twice"],
        ["acquires_one", "threading.Lock", "acquires_two"], ["acquires_two", "threading.Lock", "acquires_one"],
        ["patched_one", "threading.RLock", "patched_two"], ["patched_two", "threading.RLock", "patched_one"],
        ["waits_one", "end", "waits_two"], ["waits_two", "end", "waits_one"],
        ["has_lock", "end", "wants_lock"], ["wants_lock", "threading.Lock", "has_lock"]]}
"""

from tests.precision.programs import scene

# isort: split
import eventlet  # type: ignore[import-not-found,import-untyped,unused-ignore]

eventlet.monkey_patch()

import socket  # noqa: E402
import threading  # noqa: E402
from typing import Any  # noqa: E402

from eventlet.semaphore import (  # type: ignore[import-not-found,import-untyped,unused-ignore]  # noqa: E402
    BoundedSemaphore,
)

bounded, patched, plain = [[make(), make()] for make in (BoundedSemaphore, threading.RLock, threading.Lock)]
once, held = threading.Lock(), threading.Lock()
waited: dict[str, Any] = {}


def take(first: Any, second: Any) -> None:
    with first:
        eventlet.sleep(0.01)
        with second:
            pass


def acquire(first: Any, second: Any) -> None:
    first.acquire()
    try:
        eventlet.sleep(0.01)
        second.acquire()
        second.release()
    finally:
        first.release()


def bounded_one() -> None:
    take(*bounded)


def bounded_two() -> None:
    take(*reversed(bounded))


def takes_twice() -> None:
    with once:
        take(once, once)


def acquires_one() -> None:
    acquire(*plain)


def acquires_two() -> None:
    acquire(*reversed(plain))


def patched_one() -> None:
    take(*patched)


def patched_two() -> None:
    take(*reversed(patched))


def waits_one() -> None:
    waited["two"].wait()


def waits_two() -> None:
    waited["one"].wait()


def has_lock() -> None:
    with held:
        eventlet.spawn(wants_lock).wait()


def wants_lock() -> None:
    with held:
        pass


if __name__ == "__main__":
    waited["one"], waited["two"] = eventlet.spawn(waits_one), eventlet.spawn(waits_two)
    others = [eventlet.spawn(each) for each in (
        bounded_one, bounded_two, takes_twice, acquires_one, acquires_two, patched_one, patched_two, has_lock)]
    eventlet.sleep(0.1)
    scene.ready()
    ends = socket.socketpair()
    ends[0].recv(1)
