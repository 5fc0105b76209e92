"""Threads inside `with QMutexLocker(mutex)` blocks that wait for each other, with PyQt5 or PyQt6 (the first argument).

Others are inside blocks of a `QReadLocker` and a `QWriteLocker` of the same `QReadWriteLock`. Another thread is inside
such a block and has unlocked its mutex, which a further thread has locked since. Prints one JSON line about itself, see
tests/support/samples.py.
"""

import importlib
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

CORE = importlib.import_module(f"{sys.argv[1]}.QtCore")
SIP = importlib.import_module(f"{sys.argv[1]}.sip")
READ_END, WRITE_END = os.pipe()
STANDING: set[str] = set()
THREADS: dict[str, dict[str, object]] = {}
LOCKS: dict[str, dict[str, object]] = {}


def until(condition: Callable[[], object]) -> None:
    while not condition():
        time.sleep(0.002)


def start(role: str, target: Callable[[], object], syscall: str = "futex", alone: bool = True) -> None:
    def run() -> None:
        enrol(role, syscall)
        target()

    threading.Thread(target=run, name=role, daemon=True).start()
    until(lambda: role in STANDING or not alone)


def enrol(role: str, syscall: str) -> None:
    THREADS[role] = {"tid": threading.get_native_id(), "python_name": threading.current_thread().name, "blocked": True,
                     "syscall": syscall, "stack": []}


def tell(name: str, lock: Any, waiters: list[str], *holders: str, kind: str = "qt-mutex", state: str = "locked",
         mode: str = "exclusive", shared: tuple[str, ...] = ()) -> None:
    LOCKS[name] = {"kind": kind, "address": hex(SIP.unwrapinstance(lock)), "state": state, "mode": mode,
                   "holders": list(holders), "really": [], "waiters": waiters, "shared": list(shared),
                   "candidates": [], "evidence": "derived" if holders else None}


def take(role: str, other: str, first: Any, second: Any) -> None:
    with CORE.QMutexLocker(first):
        STANDING.add(role)
        until(lambda: other in STANDING)
        with CORE.QMutexLocker(second):
            pass


def hold(locker: Any, lock: Any, role: str) -> None:
    with locker(lock):
        STANDING.add(role)
        rest()


def ask(locker: Any, lock: Any, role: str) -> None:
    STANDING.add(role)
    with locker(lock):
        pass


def play_rwlocks() -> None:
    read, written = CORE.QReadWriteLock(), CORE.QReadWriteLock()
    start("reader", lambda: hold(CORE.QReadLocker, read, "reader"), "read")
    start("next-reader", lambda: hold(CORE.QReadLocker, read, "next-reader"), "read")
    start("former-reader", lambda: leave(read), "read")
    start("writer", lambda: hold(CORE.QWriteLocker, written, "writer"), "read")
    start("asks-to-write", lambda: ask(CORE.QWriteLocker, read, "asks-to-write"))
    start("asks-to-read", lambda: ask(CORE.QReadLocker, written, "asks-to-read"))
    tell("read.lock", read, ["asks-to-write"], "reader", "next-reader", kind="qt-rwlock", state="read-locked",
         mode="shared")
    tell("written.lock", written, ["asks-to-read"], "writer", kind="qt-rwlock", state="write-locked",
         shared=("asks-to-read",))


def leave(lock: Any) -> None:
    with CORE.QReadLocker(lock) as locker:
        locker.unlock()
        STANDING.add("former-reader")
        rest()


def rest() -> None:
    os.read(READ_END, 1)


def main() -> None:
    red, blue, passed_on = CORE.QMutex(), CORE.QMutex(), CORE.QMutex()
    start("red", lambda: take("red", "blue", red, blue), alone=False)
    start("blue", lambda: take("blue", "red", blue, red))
    tell("red.lock", red, ["blue"], "red")
    tell("blue.lock", blue, ["red"], "blue")

    def unlock() -> None:
        with CORE.QMutexLocker(passed_on) as locker:
            locker.unlock()
            STANDING.add("former")
            rest()

    def lock() -> None:
        passed_on.lock()
        STANDING.add("next")
        rest()

    def wait() -> None:
        STANDING.add("last")
        with CORE.QMutexLocker(passed_on):
            pass

    start("former", unlock, "read")
    start("next", lock, "read")
    start("last", wait)
    tell("passed-on", passed_on, ["last"])
    play_rwlocks()
    enrol("main", "read")
    print(json.dumps({"sample": "qt_lockers", "variant": sys.argv[1], "pid": os.getpid(), "threads": THREADS,
                      "locks": LOCKS, "deadlock": [("red", "blue.lock", "blue"), ("blue", "red.lock", "red")],
                      "stuck_behind": []}), flush=True)
    rest()


if __name__ == "__main__":
    main()
