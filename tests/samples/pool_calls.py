"""Python code that a thread pool of native code calls back, while the thread that waits for the pool holds a lock.

The pool is one of rayon, in pool_calls.rs, or numba's work queue. Another Python thread waits for input.

Prints one JSON line about itself, see tests/support/samples.py. Usage: pool_calls.py VARIANT [LIBRARY]

VARIANT: rayon (each thread of the pool needs the GIL, which the waiting thread holds), idle (the same, and a third
thread of the pool has no job), released (the waiting thread has released the GIL, and the jobs wait for a Python
event), numba (each thread of its pool needs a `threading.Lock` that the waiting thread holds; it has released the GIL).
"""

import ctypes
import json
import os
import sys
import threading
import time

CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
FUTEX = "202"
_never = threading.Event()


def wait(number: int) -> int:
    _never.wait()
    return number


def calls(pid: int) -> "dict[int, str]":
    """The system call of each thread."""
    found = {}
    for tid in map(int, os.listdir(f"/proc/{pid}/task")):
        with open(f"/proc/{pid}/task/{tid}/syscall") as file:
            found[tid] = file.read().split()[0]
    return found


def start_reporter(pool: int) -> None:
    """Start a process that prints the line when all threads sleep.

    :param pool: the number of threads in the pool.
    """
    roles = {os.getpid(): "main", reader.native_id: "reader"}
    if os.fork():
        return
    pid = os.getppid()
    last, times = calls(pid), 0
    while times < 20:
        time.sleep(0.02)
        now = calls(pid)
        asleep = all(call == FUTEX for tid, call in now.items() if roles.get(tid) != "reader")
        times = times + 1 if asleep and now == last and len(now) == len(roles) + pool else 0
        last = now
    roles.update((tid, f"worker-{number}") for number, tid in enumerate(sorted({*last} - {*roles})))
    print(json.dumps({
        "sample": "pool_calls", "variant": variant, "pid": pid, "locks": {}, "deadlock": [], "stuck_behind": [],
        "threads": {role: {"tid": tid, "python_name": None, "blocked": True, "syscall": None, "stack": []}
                    for tid, role in roles.items()}}), flush=True)
    os._exit(0)


def run_numba() -> None:
    import numba  # type: ignore[import-not-found]

    lock = threading.Lock()

    def acquire(number: int) -> int:
        with lock:
            return number

    callback = CALLBACK(acquire)

    @numba.njit(parallel=True)  # type: ignore[misc,untyped-decorator,unused-ignore]
    def run(count):  # type: ignore[no-untyped-def]
        total = 0
        for number in numba.prange(count):
            total += callback(number)
        return total

    run.compile((numba.int64,))
    with lock:
        start_reporter(2)
        run(2)


def run_rayon() -> None:
    library = (ctypes.CDLL if variant == "released" else ctypes.PyDLL)(sys.argv[2])
    size = 3 if variant == "idle" else 2
    callback = CALLBACK(wait if variant == "released" else lambda number: number)
    start_reporter(size)
    library.call_in_pool(ctypes.c_size_t(size), callback)


sys.setswitchinterval(1000)  # threads that wait for the GIL stay asleep
variant = sys.argv[1]
reader = threading.Thread(target=os.read, args=(0, 1), daemon=True)
reader.start()
if variant == "numba":
    run_numba()
else:
    run_rayon()
