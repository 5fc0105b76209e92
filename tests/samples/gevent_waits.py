"""Greenlets of gevent that wait for everything that gevent has, some of them for one another.

usage: gevent_waits.py (cycles | waits | patched)

`cycles`: greenlets that can never continue. `waits`: greenlets that can; a greenlet that waits for input has a lock
that others wait for. `patched`: the locks of `threading` after monkey-patching.
Prints one JSON line, see tests/support/samples.py: each greenlet with what it waits for, the role of the holder, and
whether the wait has a timeout, and the number of its cycle. Then it waits.
"""

from __future__ import annotations

import sys

from gevent import monkey  # type: ignore[import-not-found,import-untyped,unused-ignore]

if sys.argv[1] == "patched":
    monkey.patch_all()

import json
import os
import threading
from typing import Any

import gevent  # type: ignore[import-not-found,import-untyped,unused-ignore]
import gevent.event  # type: ignore[import-not-found,import-untyped,unused-ignore]
import gevent.lock  # type: ignore[import-not-found,import-untyped,unused-ignore]
import gevent.queue  # type: ignore[import-not-found,import-untyped,unused-ignore]
import gevent.socket  # type: ignore[import-not-found,import-untyped,unused-ignore]

greenlets: dict[str, Any] = {}
#: By role: what it waits for, the role of the holder, whether the wait has a timeout.
rows: dict[str, tuple[str, str | None, bool]] = {}
cycles: list[list[str]] = []


def start(role: str, kind: str, holder: str | None, timed: bool, function: Any, *arguments: Any) -> None:
    greenlets[role] = gevent.spawn(function, *arguments)
    rows[role] = kind, holder, timed


def take(first: Any, second: Any) -> None:
    with first:
        gevent.sleep(0.01)
        with second:
            pass


def take_by_calls(first: Any, second: Any) -> None:
    first.acquire()
    try:
        gevent.sleep(0.01)
        with second:
            pass
    finally:
        first.release()


def keep(lock: Any, wait: Any) -> None:
    with lock:
        wait()


def use(lock: Any) -> None:
    with lock:
        pass


def use_in_time(lock: Any) -> None:
    with gevent.Timeout(1000):
        use(lock)


def signal(lock: Any) -> None:
    lock.acquire()
    gevent.sleep(1000)


def send(lock: Any) -> None:
    gevent.sleep(1000)
    lock.release()


def join(role: str) -> None:
    greenlets[role].join()


def receive() -> None:
    gevent.socket.wait_read(os.pipe()[0])


def pair(kind: str, one: Any, other: Any, function: Any = take) -> None:
    name = f"{kind} {function.__name__} "
    start(name + "1", kind, name + "2", False, function, one, other)
    start(name + "2", kind, name + "1", False, function, other, one)
    cycles.append([name + "1", name + "2"])


def stuck() -> None:
    locks = gevent.lock
    pair("gevent.lock.RLock", locks.RLock(), locks.RLock())
    pair("gevent.lock.BoundedSemaphore", locks.BoundedSemaphore(), locks.BoundedSemaphore())
    pair("gevent.lock.BoundedSemaphore", locks.BoundedSemaphore(), locks.BoundedSemaphore(), take_by_calls)
    start("joins 1", "", None, False, join, "joins 2")
    start("joins 2", "", None, False, join, "joins 1")
    cycles.append(["joins 1", "joins 2"])
    # it waits behind a cycle
    start("behind", "", None, False, join, "joins 1")


def patched() -> None:
    mutex, once = threading.Lock(), threading.Lock()
    pair("threading.RLock", threading.RLock(), threading.RLock())
    pair("threading.Lock", mutex, threading.Lock())
    start("twice", "threading.Lock", "twice", False, take, once, once)
    cycles.append(["twice"])
    condition, event = threading.Condition(), threading.Event()
    start("condition", "threading.Condition", None, False, keep, condition, condition.wait)
    start("event", "gevent.event.Event", None, False, event.wait)


def waiting() -> None:
    lock, slow = gevent.lock.BoundedSemaphore(), gevent.lock.RLock()
    start("reads", "io", None, False, keep, lock, receive)
    start("behind reads", "gevent.lock.BoundedSemaphore", "reads", False, use, lock)
    start("sleeps", "timer", None, True, keep, slow, lambda: gevent.sleep(1000))
    start("behind sleeps", "gevent.lock.RLock", "sleeps", True, use_in_time, slow)
    # the greenlet that has acquired this lock does not release it
    handed = gevent.lock.BoundedSemaphore()
    start("acquires", "timer", None, True, signal, handed)
    start("releases", "timer", None, True, send, handed)
    start("behind handed", "gevent.lock.BoundedSemaphore", None, False, use, handed)
    # two greenlets can have this one
    several = gevent.lock.Semaphore(2)
    start("one of two", "timer", None, True, keep, several, lambda: gevent.sleep(1000))
    start("the other", "timer", None, True, keep, several, lambda: gevent.sleep(1000))
    start("third", "gevent.lock.Semaphore", None, False, use, several)
    full = gevent.queue.Queue(1)
    full.put(0)
    for role, kind, function in (
            ("event", "gevent.event.Event", gevent.event.Event().wait),
            ("result", "gevent.event.AsyncResult", gevent.event.AsyncResult().get),
            ("get", "gevent.queue.Queue", gevent.queue.Queue().get),
            ("put", "gevent.queue.Queue", lambda: full.put(1)),
            ("channel", "gevent.queue.Channel", gevent.queue.Channel().get)):
        start(role, kind, None, False, function)
    start("several", "gevent.wait", None, False, gevent.wait, [greenlets["reads"], gevent.event.Event()])


def main() -> None:
    {"cycles": stuck, "waits": waiting, "patched": patched}[sys.argv[1]]()
    gevent.sleep(0.2)
    print(json.dumps({
        "sample": "gevent_waits", "variant": sys.argv[1], "pid": os.getpid(), "threads": {}, "locks": {},
        "deadlock": [], "stuck_behind": [], "greenlets": [
            {"id": hex(id(greenlets[role])), "role": role, "kind": kind, "holder": holder, "timed": timed,
             "cycle": next((i for i, members in enumerate(cycles) if role in members), None)}
            for role, (kind, holder, timed) in rows.items()]}), flush=True)
    # another greenlet keeps the loop alive: without any, gevent raises LoopExit
    gevent.sleep(100_000)


if __name__ == "__main__":
    main()
