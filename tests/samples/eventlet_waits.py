"""Greenlets of eventlet that wait for everything that eventlet has, some of them for one another.

usage: eventlet_waits.py (cycles | waits | patched)

`cycles`: greenlets that can never continue. `waits`: greenlets that can; a greenlet that waits for input has a lock
that others wait for. `patched`: `threading` after monkey-patching.
Prints one JSON line, see gevent_waits.py, also with the greenlet of the hub and its class. Then it waits.
"""

from __future__ import annotations

import sys

import eventlet  # type: ignore[import-not-found,import-untyped,unused-ignore]

if sys.argv[1] == "patched":
    eventlet.monkey_patch()

import json
import os
import queue
import threading
from typing import Any

import eventlet.event  # type: ignore[import-not-found,import-untyped,unused-ignore]
import eventlet.green.select  # type: ignore[import-not-found,import-untyped,unused-ignore]
import eventlet.green.socket  # type: ignore[import-not-found,import-untyped,unused-ignore]
import eventlet.green.threading  # type: ignore[import-not-found,import-untyped,unused-ignore]
import eventlet.hubs  # type: ignore[import-not-found,import-untyped,unused-ignore]
import eventlet.queue  # type: ignore[import-not-found,import-untyped,unused-ignore]
import eventlet.semaphore  # type: ignore[import-not-found,import-untyped,unused-ignore]
from eventlet.semaphore import (  # type: ignore[import-not-found,import-untyped,unused-ignore]
    BoundedSemaphore,
    Semaphore,
)

greenlets: dict[str, Any] = {}
#: By role: what it waits for, the role of the holder, whether the wait has a timeout.
rows: dict[str, tuple[str, str | None, bool]] = {}
cycles: list[list[str]] = []


def start(role: str, kind: str, holder: str | None, timed: bool, function: Any, *arguments: Any) -> None:
    greenlets[role] = eventlet.spawn(function, *arguments)
    rows[role] = kind, holder, timed


def take(first: Any, second: Any) -> None:
    with first:
        eventlet.sleep(0.01)
        with second:
            pass


def take_by_calls(first: Any, second: Any) -> None:
    first.acquire()
    try:
        eventlet.sleep(0.01)
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
    with eventlet.Timeout(1000):
        use(lock)


def signal(lock: Any) -> None:
    lock.acquire()
    eventlet.sleep(1000)


def send(lock: Any) -> None:
    eventlet.sleep(1000)
    lock.release()


def join(role: str) -> None:
    greenlets[role].wait()


def pair(kind: str, one: Any, other: Any, function: Any = take) -> None:
    name = f"{kind} {function.__name__} {len(cycles)} "
    start(name + "1", kind, name + "2", False, function, one, other)
    start(name + "2", kind, name + "1", False, function, other, one)
    cycles.append([name + "1", name + "2"])


def stuck() -> None:
    green = eventlet.green.threading
    for function in (take, take_by_calls):
        pair("eventlet.semaphore.BoundedSemaphore", BoundedSemaphore(), BoundedSemaphore(), function)
        pair("threading.Lock", green.Lock(), green.Lock(), function)
    pair("threading.RLock", green.RLock(), green.RLock())
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
    start("event", "threading.Event", None, False, event.wait)
    start("queue", "queue.Queue", None, False, queue.Queue().get)
    thread = threading.Thread(target=event.wait)
    thread.start()
    # 3.13 has no lock for the end of a thread, so the greenlet itself is what is joined
    start("joins", "" if sys.version_info >= (3, 13) else "threading.Thread", None, False, thread.join)


def receive(timeout: float | None) -> None:
    end, _kept = eventlet.green.socket.socketpair()
    end.settimeout(timeout)
    end.recv(1)


def waiting() -> None:
    lock, slow = BoundedSemaphore(), BoundedSemaphore()
    start("reads", "io", None, False, keep, lock, lambda: receive(None))
    start("behind reads", "eventlet.semaphore.BoundedSemaphore", "reads", False, use, lock)
    start("sleeps", "timer", None, True, keep, slow, lambda: eventlet.sleep(1000))
    start("behind sleeps", "eventlet.semaphore.BoundedSemaphore", "sleeps", True, use_in_time, slow)
    start("acquires in time", "eventlet.semaphore.BoundedSemaphore", "sleeps", True,
          lambda: slow.acquire(timeout=1000))
    start("receives in time", "io", None, True, receive, 1000)
    start("selects", "io", None, False, eventlet.green.select.select, [os.pipe()[0]], [], [])
    start("selects in time", "io", None, True, eventlet.green.select.select, [os.pipe()[0]], [], [], 1000)
    # the greenlet that has acquired this lock does not release it
    handed = BoundedSemaphore()
    start("acquires", "timer", None, True, signal, handed)
    start("releases", "timer", None, True, send, handed)
    start("behind handed", "eventlet.semaphore.BoundedSemaphore", None, False, use, handed)
    # the hub will release one of these
    one, other = BoundedSemaphore(), BoundedSemaphore()
    eventlet.spawn_after(1000, one.release)
    start("opposite", "eventlet.semaphore.BoundedSemaphore", None, False, take, other, one)
    start("opposite too", "eventlet.semaphore.BoundedSemaphore", "opposite", False, take, one, other)
    # two greenlets can have this one, and nothing records that another is for one only
    several, single = Semaphore(2), Semaphore(1)
    start("one of two", "timer", None, True, keep, several, lambda: eventlet.sleep(1000))
    start("the other", "timer", None, True, keep, several, lambda: eventlet.sleep(1000))
    start("third", "eventlet.semaphore.Semaphore", None, False, use, several)
    start("only one", "timer", None, True, keep, single, lambda: eventlet.sleep(1000))
    start("behind only one", "eventlet.semaphore.Semaphore", None, False, use, single)
    full, joined = eventlet.queue.LightQueue(1), eventlet.queue.Queue()
    full.put(0)
    joined.put(0)
    for role, kind, function in (
            ("event", "eventlet.event.Event", eventlet.event.Event().wait),
            ("get", "eventlet.queue.PriorityQueue", eventlet.queue.PriorityQueue().get),
            ("put", "eventlet.queue.LightQueue", lambda: full.put(1)),
            ("joins queue", "eventlet.queue.Queue", joined.join),
            ("channel", "eventlet.queue.Queue", eventlet.queue.Queue(0).get)):
        start(role, kind, None, False, function)
    start("event in time", "eventlet.event.Event", None, True, lambda: eventlet.event.Event().wait(1000))
    start("get in time", "eventlet.queue.Queue", None, True, lambda: eventlet.queue.Queue().get(timeout=1000))


def main() -> None:
    {"cycles": stuck, "waits": waiting, "patched": patched}[sys.argv[1]]()
    eventlet.sleep(0.2)
    print(json.dumps({
        "sample": "eventlet_waits", "variant": sys.argv[1], "pid": os.getpid(), "threads": {}, "locks": {},
        "deadlock": [], "stuck_behind": [], "greenlets": [
            {"id": hex(id(eventlet.hubs.get_hub().greenlet)), "role": "hub", "kind": "eventlet.hubs.epolls.Hub"},
            *({"id": hex(id(greenlets[role])), "role": role, "kind": kind, "holder": holder, "timed": timed,
               "cycle": next((i for i, members in enumerate(cycles) if role in members), None)}
              for role, (kind, holder, timed) in rows.items())]}), flush=True)
    eventlet.sleep(100_000)


if __name__ == "__main__":
    main()
