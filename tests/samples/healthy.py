"""A program with many locks and waits but no deadlock, so a debugger must not find one.

It writes two growing counters to the file `progress` in its directory, which show that it runs. A byte
on standard input ends the read that keeps a driver lock; the program then finishes, prints a second JSON line
and exits with status 0. Runs on CPython 3.6 and later.
"""

import argparse
import ctypes
import json
import mmap
import os
import struct
import sys
import threading
import time
from typing import Callable

TIDS = {}  # type: dict[str, int]
STOP = threading.Event()
TURN = threading.Lock()
JOBS = threading.Condition()


class Counters:
    """Two numbers that another process may read at any time: rounds of computing, turns taken."""

    def __init__(self, path: str) -> None:
        with open(path, "w+b") as file:
            file.write(bytes(16))
            file.flush()
            self.memory = mmap.mmap(file.fileno(), 16)

    def add(self, index: int) -> None:
        (value,) = struct.unpack_from("<Q", self.memory, 8 * index)
        struct.pack_into("<Q", self.memory, 8 * index, value + 1)

    def read(self) -> "tuple[int, ...]":
        return struct.unpack_from("<QQ", self.memory, 0)


def enrol(role: str, driver: ctypes.CDLL) -> None:
    native_id = getattr(threading, "get_native_id", None)  # since 3.8
    TIDS[role] = native_id() if native_id else int(driver.drv_thread_id())


def compute(counters: Counters) -> None:
    """Keep the GIL busy."""
    value = 1
    while not STOP.is_set():
        for _ in range(2000):
            value = value * 6364136223846793005 + 1442695040888963407 & 0xFFFFFFFFFFFFFFFF
        counters.add(0)


def take_turns(counters: Counters) -> None:
    """Hold the lock during a short sleep, so that the other thread is seen waiting; then wake the pool."""
    while not STOP.is_set():
        with TURN:
            time.sleep(0.002)
            counters.add(1)
        with JOBS:
            JOBS.notify()


def serve_jobs() -> None:
    with JOBS:
        while not STOP.is_set():
            JOBS.wait()


def doze() -> None:
    time.sleep(100000)


def read_table(driver: ctypes.CDLL) -> None:
    driver.drv_stream(sys.stdin.fileno())


def write_table(driver: ctypes.CDLL) -> None:
    driver.drv_alloc(ctypes.c_long(4096))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--driver", required=True, help="path of the compiled drv.c")
    options = parser.parse_args()
    driver = ctypes.CDLL(options.driver)
    driver.drv_lock_address.restype = ctypes.c_void_p
    driver.drv_thread_id.restype = ctypes.c_long
    if driver.drv_open(0):
        sys.exit("drv_open failed")
    counters = Counters("progress")

    threads = {}  # type: dict[str, threading.Thread]

    def start(role: str, target: "Callable[..., None]", *arguments: object) -> None:
        enrolled = threading.Event()

        def run() -> None:
            enrol(role, driver)
            enrolled.set()
            target(*arguments)

        threads[role] = threading.Thread(target=run, name=role, daemon=role == "sleeper")
        threads[role].start()
        enrolled.wait()

    enrol("main", driver)
    start("reader", read_table, driver)
    driver.drv_await_holders(1)
    start("writer", write_table, driver)
    driver.drv_await_wanting(1)
    start("turns-1", take_turns, counters)
    start("turns-2", take_turns, counters)
    for number in (1, 2, 3):
        start(f"pool-{number}", serve_jobs)
    start("sleeper", doze)
    start("computer", compute, counters)

    syscalls = {"reader": "read", "writer": "futex"}
    names = {role: thread.name for role, thread in threads.items()}
    truth = {
        "sample": "healthy",
        "variant": "healthy",
        "pid": os.getpid(),
        "threads": {
            role: {
                "tid": tid,
                "python_name": names.get(role, "MainThread"),
                "blocked": role == "writer",
                "syscall": syscalls.get(role),
                "stack": [],
            }
            for role, tid in TIDS.items()
        },
        "locks": {
            "table": {
                "kind": "rwlock",
                "address": hex(driver.drv_lock_address()),
                "state": "read-locked",
                "mode": "shared",
                "holders": ["reader"],
                "really": ["reader"],
                "waiters": ["writer"],
                "candidates": [],
                "evidence": "inferred",
            }
        },
        "deadlock": [],
        "stuck_behind": [],
    }
    print(json.dumps(truth), flush=True)

    threads["reader"].join()
    threads["writer"].join()
    STOP.set()
    with JOBS:
        JOBS.notify_all()
    for role, thread in threads.items():
        if role != "sleeper":
            thread.join()
    computed, turns = counters.read()
    print(json.dumps({"sample": "healthy", "finished": True, "computed": computed, "turns": turns}), flush=True)


if __name__ == "__main__":
    main()
