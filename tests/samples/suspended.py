"""A program whose first thread waits for a lock that a suspended coroutine or generator of its own has taken.

usage: suspended.py (task | generator | loop-idle)

With `loop-idle` the loop sleeps, and a second thread waits for a `threading.RLock` that a coroutine has taken.
Prints one JSON line, see tests/support/samples.py, and hangs.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from collections.abc import Iterator
from typing import Any

lock = threading.Lock()
rlock = threading.RLock()


def ready(kind: str, holding: object, threads: dict[str, tuple[int, str, str]], edges: list[list[str]]) -> None:
    rows = {role: {"tid": number, "python_name": name, "blocked": True, "syscall": syscall, "stack": []}
            for role, (number, name, syscall) in threads.items()}
    row = {"kind": kind, "address": hex(id(holding)), "state": "locked", "mode": "exclusive", "holders": ["main"],
           "really": ["main"], "waiters": [], "candidates": [], "evidence": "derived"}
    print(json.dumps({"sample": "suspended", "variant": sys.argv[1], "pid": os.getpid(), "threads": rows,
                      "locks": {"lock": row}, "deadlock": edges, "stuck_behind": []}), flush=True)


def deadlock() -> None:
    ready("py-lock", lock, {"main": (os.getpid(), "MainThread", "futex")}, [["main", "lock", "main"]])
    with lock:
        raise AssertionError("the lock was free")


async def wait(event: asyncio.Event) -> None:
    await event.wait()


async def keep(taken: Any, event: asyncio.Event) -> None:
    with taken:
        await wait(event)


async def take() -> None:
    await asyncio.sleep(0)
    deadlock()


async def both() -> None:
    await asyncio.gather(keep(lock, asyncio.Event()), take())


def rows() -> Iterator[int]:
    with lock:
        yield from range(3)


def all_rows() -> Iterator[int]:
    yield from rows()


def take_rlock(started: list[int]) -> None:
    started.append(threading.get_native_id())
    with rlock:
        raise AssertionError("the lock was free")


async def idle() -> None:
    started: list[int] = []

    async def start() -> None:
        await asyncio.sleep(0)
        threading.Thread(target=take_rlock, args=(started,), name="taker", daemon=True).start()
        while not started:
            await asyncio.sleep(0.01)
        ready("py-rlock", rlock, {"main": (os.getpid(), "MainThread", "epoll_wait"),
                                  "taker": (started[0], "taker", "futex")}, [])

    await asyncio.gather(keep(rlock, asyncio.Event()), start())


def main() -> None:
    if sys.argv[1] == "generator":
        reader = all_rows()
        next(reader)
        deadlock()
    elif sys.argv[1] == "task":
        asyncio.run(both())
    else:
        asyncio.run(idle())


if __name__ == "__main__":
    main()
