"""A parallel loop of numba with its work queue: one worker sleeps in the loop, the others are done with their parts.

Prints one JSON line about itself, see tests/support/samples.py.
"""

import ctypes
import json
import os
import threading
import time
from typing import Any

import numba  # type: ignore[import-not-found]
import numpy  # type: ignore[import-not-found]

SLEEP = ctypes.CDLL(None).sleep
SLEEP.argtypes, SLEEP.restype = [ctypes.c_uint], ctypes.c_uint
LAST = 3
#: Numbers of system calls: futex; nanosleep and clock_nanosleep.
FUTEX, SLEEPS = "202", {"35", "230"}


@numba.njit(parallel=True)  # type: ignore[misc,untyped-decorator,unused-ignore]
def run(seconds: Any) -> None:
    for index in numba.prange(seconds.size):
        if seconds[index]:
            SLEEP(seconds[index])


def call_of(tid: int) -> str:
    with open(f"/proc/self/task/{tid}/syscall") as file:
        return file.read().split()[0]


def threads() -> "list[int]":
    return [int(tid) for tid in os.listdir("/proc/self/task")]


def main() -> None:
    # the variable OPENBLAS_NUM_THREADS keeps numpy from starting others
    before = set(threads())
    run(numpy.zeros(LAST, numpy.uint32))
    workers = sorted(set(threads()) - before)
    seconds = numpy.zeros(LAST, numpy.uint32)
    seconds[LAST - 1] = 1 << 30
    launcher = threading.Thread(target=run, args=(seconds,), daemon=True)
    launcher.start()
    assert launcher.native_id is not None
    idle: "list[int]" = []
    # one worker sleeps in the loop, which is another system call
    while call_of(launcher.native_id) != FUTEX or len(idle) != len(workers) - 1:
        time.sleep(0.01)
        calls = {tid: call_of(tid) for tid in workers}
        idle = [tid for tid, call in calls.items() if call == FUTEX] if SLEEPS & {*calls.values()} else []
    roles = {"main": os.getpid(), "launcher": launcher.native_id}
    roles.update((f"idle-{number}", tid) for number, tid in enumerate(idle))
    roles.update((f"busy-{tid}", tid) for tid in workers if tid not in idle)
    print(json.dumps({
        "sample": "numba_queue", "variant": "all", "pid": os.getpid(), "locks": {}, "deadlock": [], "stuck_behind": [],
        "threads": {role: {"tid": tid, "python_name": None, "blocked": True, "syscall": None, "stack": []}
                    for role, tid in roles.items()}}), flush=True)
    os.read(0, 1)


if __name__ == "__main__":
    main()
