"""Greenlets of gevent that wait for each other, while the process has no deadlock of threads.

After reports on gevent's tracker of workers whose greenlets take two locks in opposite order, take a `threading.Lock`
twice after monkey-patching, or join each other: the server goes on to accept connections, and no request is answered.

Truth: {"expect": "deadlock", "packages": ["gevent"], "pythons": ["3.11"], "edges": [], "greenlets": [
        ["rlock_one", "gevent.lock.RLock", "rlock_two"], ["rlock_two", "gevent.lock.RLock", "rlock_one"],
        ["bounded_one", "gevent.lock.BoundedSemaphore", "bounded_two"],
        ["bounded_two", "gevent.lock.BoundedSemaphore", "bounded_one"],
        ["takes_twice", "threading.Lock", "takes_twice"],
        ["patched_one", "threading.RLock", "patched_two"], ["patched_two", "threading.RLock", "patched_one"],
        ["joins_one", "end", "joins_two"], ["joins_two", "end", "joins_one"]]}
"""

from tests.precision.programs import scene

# isort: split
from gevent import monkey  # type: ignore[import-not-found,import-untyped,unused-ignore]

monkey.patch_all()

import threading  # noqa: E402
from typing import Any  # noqa: E402

import gevent  # type: ignore[import-not-found,import-untyped,unused-ignore]  # noqa: E402
import gevent.lock  # type: ignore[import-not-found,import-untyped,unused-ignore]  # noqa: E402

recursive, bounded = [[make(), make()] for make in (gevent.lock.RLock, gevent.lock.BoundedSemaphore)]
once, patched = threading.Lock(), [threading.RLock(), threading.RLock()]
joined: dict[str, Any] = {}


def take(first: Any, second: Any) -> None:
    with first:
        gevent.sleep(0.01)
        with second:
            pass


def rlock_one() -> None:
    take(*recursive)


def rlock_two() -> None:
    take(*reversed(recursive))


def bounded_one() -> None:
    take(*bounded)


def bounded_two() -> None:
    take(*reversed(bounded))


def takes_twice() -> None:
    with once:
        take(once, once)


def patched_one() -> None:
    take(*patched)


def patched_two() -> None:
    take(*reversed(patched))


def joins_one() -> None:
    joined["two"].join()


def joins_two() -> None:
    joined["one"].join()


if __name__ == "__main__":
    joined["one"], joined["two"] = gevent.spawn(joins_one), gevent.spawn(joins_two)
    others = [gevent.spawn(each) for each in (
        rlock_one, rlock_two, bounded_one, bounded_two, takes_twice, patched_one, patched_two)]
    gevent.sleep(0.1)
    scene.ready()
    gevent.sleep(100_000)
