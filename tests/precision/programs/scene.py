"""Shared by the Python programs: roles of threads, the line that lists them, the native helpers, the end.

A program calls `ready` when its threads are started; the line has the numbers of the process to inspect and of its
threads, by role. A healthy program polls `stopping`, or waits for SIGTERM; a deadlocked one is killed.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import mmap
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, NoReturn


class _Stopping(threading.Event):
    """Set when the program is to end; also, though nobody is woken, when the harness has written into the file `stop`.

    So a healthy program can end without a handler of a signal, which would be another one that could wake its threads.
    """

    def __init__(self) -> None:
        super().__init__()
        with open("stop", "rb") as file:
            self._byte = mmap.mmap(file.fileno(), 1, access=mmap.ACCESS_READ)

    def is_set(self) -> bool:
        return super().is_set() or self._byte[0] != 0


stopping = _Stopping()
_roles = {"main": threading.get_native_id()}


class Told(BaseException):
    """Raised in the main thread of a healthy program when it is to end."""


def _forked() -> None:
    # the child has one thread, and it is the child that is inspected
    _roles.clear()
    _roles["main"] = threading.get_native_id()


os.register_at_fork(after_in_child=_forked)


def enrol(role: str) -> None:
    """Make the calling thread known by a role."""
    _roles[role] = threading.get_native_id()


def thread(role: str, target: Callable[..., object], *arguments: object, daemon: bool = True) -> threading.Thread:
    """Start a thread with a role; it is known when this returns."""
    enrolled = threading.Event()

    def run() -> None:
        enrol(role)
        enrolled.set()
        target(*arguments)

    started = threading.Thread(target=run, name=role, daemon=daemon)
    started.start()
    enrolled.wait()
    return started


def ready() -> None:
    """Say that the program is in, or goes straight into, the state that its header describes."""
    listens = signal.getsignal(signal.SIGTERM) != signal.SIG_DFL or signal.SIGTERM in signal.pthread_sigmask(0, ())
    line = json.dumps({"pid": os.getpid(), "threads": _roles, "listens": listens})
    # no buffer whose lock a program might be about
    os.write(sys.__stdout__.fileno() if sys.__stdout__ else 1, f"{line}\n".encode())


def forget(role: str) -> None:
    """A thread has ended on purpose."""
    del _roles[role]


def discover(*roles: str) -> None:
    """Make the threads known that native code has started, in the order in which it did."""
    unknown = sorted({int(name) for name in os.listdir("/proc/self/task")} - {*_roles.values()})
    assert len(unknown) == len(roles), f"{len(unknown)} threads are to be {roles}"
    _roles.update(zip(roles, unknown))


def await_held(lock: Any) -> None:
    """Wait until another thread has a lock."""
    while lock.acquire(blocking=False):
        lock.release()
        os.sched_yield()


def listen() -> None:
    """Let SIGTERM set `stopping`, for a main thread that must not be interrupted by an exception."""
    signal.signal(signal.SIGTERM, lambda number, frame: stopping.set())


@contextlib.contextmanager
def until_told() -> Iterator[None]:
    """Run the body until SIGTERM comes; the threads then see `stopping`."""

    def tell(number: int, frame: FrameType | None) -> NoReturn:
        # a second one must not interrupt the end
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise Told

    signal.signal(signal.SIGTERM, tell)
    try:
        yield
    except Told:
        pass
    finally:
        stopping.set()


def native(*, gil: bool = False) -> Any:
    """The compiled helpers of native.cpp.

    :param gil: whether calls keep the GIL.
    """
    path = os.environ["PRECISION_NATIVE"]
    return ctypes.PyDLL(path) if gil else ctypes.CDLL(path)


#: A function without arguments that native code calls; it takes the GIL.
Callback = ctypes.CFUNCTYPE(None)
