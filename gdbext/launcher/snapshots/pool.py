"""Many snapshots, a few at a time, each in a process of its own."""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from typing import TypeVar

from gdbext.launcher.snapshots.snapshot import end_running

T = TypeVar("T")
R = TypeVar("R")

#: How often `tick` is called, in seconds.
_TICK = 0.1
#: The level of compression, the fastest.
_LEVEL = 1
_FORMAT = 1


def processors() -> int:
    """The number of processors that this process may use."""
    return len(os.sched_getaffinity(0))


def run_all(things: Sequence[T], jobs: int, work: Callable[[T], R], done: Callable[[T, R], None],
            tick: Callable[[], None] = lambda: None, end: Callable[[], None] = end_running) -> None:
    """Do the same work on many things, several at a time, in threads that each wait for a process.

    :param work: called for each thing; it does not raise for a bad one.
    :param done: called in this thread after each; `tick` is called regularly.
    :param end: ends running work early when the run is stopped.
    :raises KeyboardInterrupt: after all work has ended; so do all other exceptions.
    """
    finished: queue.SimpleQueue[Future[R]] = queue.SimpleQueue()
    stop = threading.Event()

    def work_unless_stopped(thing: T) -> R:
        if stop.is_set():
            raise CancelledError
        try:
            return work(thing)
        except BaseException:
            stop.set()  # no other work begins meanwhile
            raise

    with ThreadPoolExecutor(max(jobs, 1), "snapshot") as executor:
        futures: dict[Future[R], T] = {}
        try:
            for thing in things:
                future = executor.submit(work_unless_stopped, thing)
                futures[future] = thing
                future.add_done_callback(finished.put)
            left = len(futures)
            while left:
                try:
                    future = finished.get(timeout=_TICK)
                except queue.Empty:
                    tick()
                    continue
                left -= 1
                done(futures[future], future.result())
                tick()
        except BaseException:
            executor.shutdown(wait=False, cancel_futures=True)
            while not all(future.done() for future in futures):
                end()  # repeatedly: work that has just begun may miss the first call
                time.sleep(_TICK)
            raise
