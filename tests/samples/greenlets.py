"""A program with greenlets in every state, or one whose greenlet holds the lock that a thread waits for.

usage: greenlets.py (states | deadlock | main | released | idle | ended)

`deadlock`: the first thread waits for a lock that a suspended greenlet of its own has taken. `main`: a greenlet waits
for a lock that the thread's main greenlet has taken. `released`: another suspended greenlet can release the lock, so
the holder is not proven. The others are not provably stuck. `idle`: a second thread waits, and the thread of the
greenlet sleeps. `ended`: the thread of the greenlet has ended, so nobody can resume it.
Prints one JSON line, see tests/support/samples.py, with the greenlets, and hangs.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import threading
from typing import Any

import greenlet  # type: ignore[import-not-found,import-untyped,unused-ignore]

lock = threading.Lock()
#: Greenlets with their state, the role of their thread, and the functions in their stack, innermost first.
made: list[tuple[Any, str, str | None, list[str]]] = []
threads: dict[str, dict[str, Any]] = {}


class Worker(greenlet.greenlet):  # type: ignore[misc]
    """A class of the program."""


def ready(edges: list[list[str | None]], holders: list[str], waiters: bool = True) -> None:
    row = {"kind": "py-lock", "address": hex(id(lock)), "state": "locked", "mode": "exclusive", "holders": holders,
           "really": holders, "waiters": [], "candidates": [], "evidence": "derived" if holders else None}
    print(json.dumps({"sample": "greenlets", "variant": sys.argv[1], "pid": os.getpid(), "threads": threads,
                      "locks": {"lock": row} if waiters else {}, "deadlock": edges, "stuck_behind": [], "greenlets": [
                          {"id": hex(id(each)), "kind": type(each).__name__, "state": state, "thread": role,
                           "stack": stack} for each, state, role, stack in made]}), flush=True)


def thread(role: str, syscall: str) -> None:
    threads[role] = {"tid": threading.get_native_id(), "python_name": threading.current_thread().name,
                     "blocked": True, "syscall": syscall, "stack": []}


def leave() -> None:
    greenlet.getcurrent().parent.switch()


def work() -> None:
    try:
        raise LookupError
    except LookupError:
        leave()


def rows() -> Any:
    leave()
    yield 1


def read() -> None:
    for _ in rows():
        pass


def finish() -> None:
    pass


def hold() -> None:
    with lock:
        leave()


def give_back() -> None:
    leave()
    lock.release()


def wait() -> None:
    with lock:
        raise AssertionError("the lock was free")


def sleep(event: threading.Event) -> None:
    event.set()
    os.read(os.pipe()[0], 1)


def second(event: threading.Event) -> None:
    thread("second", "read")
    made.append((greenlet.getcurrent(), "suspended", "second", ["second"]))
    suspended = greenlet.greenlet(work)
    suspended.switch()
    made.append((suspended, "suspended", "second", ["leave", "work"]))
    current = Worker(sleep)
    made.append((current, "current", "second", []))
    current.switch(event)


def ending() -> None:
    each = greenlet.greenlet(work)
    each.switch()
    made.append((each, "suspended", None, ["leave", "work"]))


def states() -> None:
    thread("main", "read")
    made.append((greenlet.getcurrent(), "current", "main", []))
    for function, stack in ((work, ["leave", "work"]), (read, ["leave", "rows", "read"])):
        each = greenlet.greenlet(function)
        each.switch()
        made.append((each, "suspended", "main", stack))
    gc.freeze()  # these greenlets are in a list of their own
    dead = greenlet.greenlet(finish)
    dead.switch()
    made.append((dead, "dead", None, []))
    made.append((Worker(finish), "not started", None, []))
    starter = threading.Thread(target=ending)
    starter.start()
    starter.join()
    event = threading.Event()
    threading.Thread(target=second, args=(event,), name="second", daemon=True).start()
    event.wait()
    ready([], [], waiters=False)
    os.read(os.pipe()[0], 1)


def start(function: Any) -> Any:
    each = greenlet.greenlet(function)
    each.switch()
    return each


def waiting(event: threading.Event) -> None:
    thread("taker", "futex")
    event.set()
    wait()


def start_taker() -> None:
    event = threading.Event()
    threading.Thread(target=waiting, args=(event,), name="taker", daemon=True).start()
    event.wait()


def main() -> None:
    variant = sys.argv[1]
    if variant == "states":
        states()
    elif variant == "deadlock":
        thread("main", "futex")
        kept = start(hold)
        ready([["main", "lock", "main"]], ["main"])
        wait()
        del kept
    elif variant == "main":
        thread("main", "futex")
        with lock:
            ready([["main", "lock", "main"]], ["main"])
            start(wait)
    elif variant == "released":
        thread("main", "futex")
        kept = start(hold), start(give_back)
        # the thread holds it, which is not proven; no other thread could release it
        ready([["main", "lock", None]], [])
        wait()
        del kept
    elif variant == "idle":
        thread("main", "read")
        kept = start(hold)
        start_taker()
        ready([], ["main"])
        os.read(os.pipe()[0], 1)
        del kept
    else:
        thread("main", "read")
        keep: list[Any] = []
        starter = threading.Thread(target=lambda: keep.append(start(hold)))
        starter.start()
        starter.join()
        start_taker()
        ready([], [])
        os.read(os.pipe()[0], 1)


if __name__ == "__main__":
    main()
