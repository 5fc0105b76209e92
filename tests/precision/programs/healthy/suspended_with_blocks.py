"""Coroutines and generators that are suspended inside and outside of `with` blocks, and always resumed.

A loop's thread waits for a lock that its suspended coroutines had before, or have released for a while inside the
`with` block; another thread has it then. A thread waits for the lock of a generator that another thread resumes.
A thread waits for the lock of a coroutine whose loop sleeps in another thread.

Truth: {"expect": "healthy"}
"""

import asyncio
import contextlib
import queue
import threading
import time
from collections.abc import Iterator

from tests.precision.programs import scene


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
            lock.acquire()
            try:
                time.sleep(0.002)
            finally:
                lock.release()


def use_in_with(lock: threading.Lock) -> None:
    while not scene.stopping.is_set():
        with lock:
            time.sleep(0.001)


# -- one loop --------------------------------------------------------------------------------------------------------

async def has_left(lock: threading.Lock) -> None:
    while not scene.stopping.is_set():
        with lock:
            pass
        await asyncio.sleep(0.002)


async def releases(lock: threading.Lock) -> None:
    while not scene.stopping.is_set():
        with lock:
            lock.release()
            await asyncio.sleep(0.002)
            lock.acquire()


async def releases_in_manager(lock: threading.Lock) -> None:
    while not scene.stopping.is_set():
        with lock, without(lock):
            await asyncio.sleep(0.002)


async def has_asyncio_lock(lock: asyncio.Lock) -> None:
    while not scene.stopping.is_set():
        async with lock:
            await asyncio.sleep(0.001)


async def first_loop(left: threading.Lock, released: threading.Lock, managed: threading.Lock) -> None:
    own = asyncio.Lock()
    await asyncio.gather(*(each for _ in range(3) for each in (
        has_left(left), releases(released), releases_in_manager(managed), has_asyncio_lock(own))))


async def keep(lock: threading.Lock) -> None:
    while not scene.stopping.is_set():
        with lock:
            await asyncio.sleep(0.005)
        await asyncio.sleep(0.001)


# -- generators --------------------------------------------------------------------------------------------------------

def inside(lock: threading.Lock) -> Iterator[None]:
    with lock:
        yield


def start(lock: threading.Lock, started: "queue.Queue[Iterator[None] | None]") -> None:
    while not scene.stopping.is_set():
        rows = inside(lock)
        next(rows)
        started.put(rows)
        with lock:
            pass
    started.put(None)


def resume(started: "queue.Queue[Iterator[None] | None]") -> None:
    rows = started.get()
    while rows is not None:
        time.sleep(0.003)
        next(rows, None)
        rows = started.get()


def outside(lock: threading.Lock) -> Iterator[None]:
    while True:
        with lock:
            pass
        yield
        with lock, without(lock):
            yield


def drive(lock: threading.Lock) -> None:
    rows = outside(lock)
    while not scene.stopping.is_set():
        next(rows)
        with lock:
            pass


if __name__ == "__main__":
    locks = [threading.Lock() for _ in range(6)]
    passed: "queue.Queue[Iterator[None] | None]" = queue.Queue()
    threads = [
        scene.thread("loop-1", asyncio.run, first_loop(*locks[:3])),
        scene.thread("loop-2", asyncio.run, keep(locks[3])),
        scene.thread("user-of-three", use, *locks[:3]),
        scene.thread("user-of-one", use_in_with, locks[3]),
        scene.thread("starts", start, locks[4], passed),
        scene.thread("resumes", resume, passed),
        scene.thread("drives", drive, locks[5]),
        scene.thread("user-of-last", use, locks[5]),
    ]
    scene.ready()
    for thread in threads:
        thread.join()
