"""Greenlets that are suspended inside and outside of `with` blocks, and always resumed.

A thread waits for a lock that its suspended greenlets had before, or have released for a while inside the `with` block;
another thread has it then. A thread waits for the lock of a suspended greenlet that its own thread soon resumes.
Threads with greenlets end, and later threads may have their thread states at the same addresses.

Truth: {"expect": "healthy", "packages": ["greenlet"], "pythons": ["3.11"]}
"""

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import Any

import greenlet  # type: ignore[import-not-found,import-untyped,unused-ignore]

from tests.precision.programs import scene


def leave() -> None:
    greenlet.getcurrent().parent.switch()


@contextlib.contextmanager
def without(taken: threading.Lock) -> Iterator[None]:
    taken.release()
    try:
        yield
    finally:
        taken.acquire()


def use(*locks: threading.Lock) -> None:
    while not scene.stopping.is_set():
        for lock in locks:
            with lock:
                time.sleep(0.002)


def has_left(lock: threading.Lock) -> None:
    while not scene.stopping.is_set():
        with lock:
            pass
        leave()


def releases(lock: threading.Lock) -> None:
    while not scene.stopping.is_set():
        with lock:
            lock.release()
            leave()
            lock.acquire()


def releases_in_manager(lock: threading.Lock) -> None:
    while not scene.stopping.is_set():
        with lock, without(lock):
            leave()


def keep(lock: threading.Lock) -> None:
    while not scene.stopping.is_set():
        with lock:
            leave()
        leave()


def run(*work: tuple[Any, threading.Lock]) -> None:
    """Resume greenlets in turn until all have finished."""
    running = [(greenlet.greenlet(function), lock) for function, lock in work]
    for each, lock in running:
        each.switch(lock)
    while any(not each.dead for each, _ in running):
        time.sleep(0.002)
        for each, _ in running:
            if not each.dead:
                each.switch()


def hold(lock: threading.Lock, kept: list[Any]) -> None:
    """Leave a greenlet suspended after its `with` block, and end."""

    def take() -> None:
        with lock:
            pass
        leave()

    kept.append(greenlet.greenlet(take))
    kept[-1].switch()


def start_and_end(lock: threading.Lock) -> None:
    kept: list[Any] = []
    while not scene.stopping.is_set():
        thread = threading.Thread(target=hold, args=(lock, kept))
        thread.start()
        thread.join()
        del kept[:-5]


if __name__ == "__main__":
    locks = [threading.Lock() for _ in range(5)]
    threads = [
        scene.thread("greenlets-1", run, *((each, lock) for each, lock in zip(
            (has_left, releases, releases_in_manager) * 2, locks[:3] * 2))),
        scene.thread("greenlets-2", run, (keep, locks[3])),
        scene.thread("user-of-three", use, *locks[:3]),
        scene.thread("user-of-one", use, locks[3]),
        scene.thread("starts", start_and_end, locks[4]),
        scene.thread("user-of-last", use, locks[4]),
    ]
    scene.ready()
    for thread in threads:
        thread.join()
