"""Threads that wait for locks of the type `FastRLock`: of the package fastrlock, and of lupa, which has its own copy.

Prints one JSON line about itself, see tests/support/samples.py.
"""

import gc
import json
import os
import threading
import time
from collections.abc import Callable
from typing import Any

import lupa  # type: ignore[import-not-found,import-untyped,unused-ignore]
from fastrlock.rlock import FastRLock  # type: ignore[import-not-found,import-untyped,unused-ignore]

READ_END, WRITE_END = os.pipe()
STANDING: set[str] = set()
THREADS: dict[str, dict[str, object]] = {}
LOCKS: dict[str, dict[str, object]] = {}


def until(condition: Callable[[], object]) -> None:
    while not condition():
        time.sleep(0.002)


def enrol(role: str, syscall: str = "futex") -> None:
    THREADS[role] = {"tid": threading.get_native_id(), "python_name": threading.current_thread().name, "blocked": True,
                     "syscall": syscall, "stack": []}


def start(role: str, target: Callable[[], object], syscall: str = "futex") -> threading.Thread:
    """Start a thread; returns when it is about to wait forever."""

    def run() -> None:
        enrol(role, syscall)
        target()

    thread = threading.Thread(target=run, name=role, daemon=True)
    thread.start()
    until(lambda: role in STANDING)
    return thread


def stand(role: str) -> None:
    STANDING.add(role)


def tell(name: str, kind: str, lock: object, waiters: list[str], holder: "str | None", evidence: "str | None",
         candidates: tuple[str, ...] = ()) -> None:
    holders = [holder] if holder else []
    LOCKS[name] = {"kind": kind, "address": hex(id(lock)), "state": "locked", "mode": "exclusive", "holders": holders,
                   "really": holders, "waiters": waiters, "candidates": list(candidates), "evidence": evidence}


# -- the scenes -----------------------------------------------------------------------------------------------


def opposite_order() -> list[tuple[str, str, str]]:
    red, blue = FastRLock(), FastRLock()

    def take(role: str, other: str, first: Any, second: Any) -> None:
        with first, first:
            stand(role)
            until(lambda: other in STANDING)
            with second:
                pass

    def take_red() -> None:
        enrol("red")
        take("red", "blue", red, blue)

    threading.Thread(target=take_red, name="red", daemon=True).start()
    start("blue", lambda: take("blue", "red", blue, red))
    tell("red.lock", "py-fast-rlock", red, ["blue"], "red", "recorded")
    tell("blue.lock", "py-fast-rlock", blue, ["red"], "blue", "recorded")
    return [("red", "blue.lock", "blue"), ("blue", "red.lock", "red")]


def lua_calls_back() -> list[tuple[str, str, str]]:
    """A thread that runs Lua has the lock of its LuaRuntime, which compiled code has taken."""
    runtime, ledger = lupa.LuaRuntime(), threading.Lock()
    lock = next(each for each in gc.get_referents(runtime) if type(each).__name__ == "FastRLock")

    def called_back() -> None:
        stand("lua")
        until(lambda: "clerk" in STANDING)
        with ledger:
            pass

    def write() -> None:
        with ledger:
            stand("clerk")
            runtime.execute("x = 1")

    runtime.globals().callback = called_back
    start("lua", lambda: runtime.execute("callback()"))
    start("clerk", write)
    tell("ledger", "py-lock", ledger, ["lua"], "clerk", "derived")
    tell("runtime", "py-fast-rlock", lock, ["clerk"], "lua", "inferred")
    return [("lua", "ledger", "clerk"), ("clerk", "runtime", "lua")]


def acquired_without_with() -> None:
    lock = FastRLock()

    def keep() -> None:
        lock.acquire()
        stand("keeper")
        os.read(READ_END, 1)

    def want() -> None:
        stand("wants")
        lock.acquire()

    start("keeper", keep, "read")
    start("wants", want)
    tell("kept", "py-fast-rlock", lock, ["wants"], "keeper", "recorded")


def ident_of_another_thread() -> None:
    """The owner has ended without a release, and a new thread has its ident."""
    lock = FastRLock()
    owner = threading.Thread(target=lock.acquire)
    owner.start()
    owner.join()
    # its stack is used again when the kernel has ended it
    until(lambda: not os.path.exists(f"/proc/self/task/{owner.native_id}"))

    def stranger() -> None:
        stand("stranger")
        os.read(READ_END, 1)

    def want() -> None:
        stand("in vain")
        lock.acquire()

    assert start("stranger", stranger, "read").ident == owner.ident
    start("in vain", want)
    tell("lost", "py-fast-rlock", lock, ["in vain"], None, None, ("stranger",))


def main() -> None:
    enrol("main")
    edges = opposite_order() + lua_calls_back()
    acquired_without_with()
    ident_of_another_thread()
    until(lambda: {"red", "blue", "lua", "clerk", "wants", "in vain"} <= STANDING)
    done = threading.Event()
    tell("done", "py-event", done, ["main"], None, None)
    LOCKS["done"]["state"] = "not set"
    print(json.dumps({"sample": "fast_rlocks", "variant": "", "pid": os.getpid(), "threads": THREADS, "locks": LOCKS,
                      "deadlock": edges, "stuck_behind": []}), flush=True)
    done.wait()


if __name__ == "__main__":
    main()
