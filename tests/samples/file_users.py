"""Threads of one process that lock files in opposite order, each with open files of its own.

One thread is inside a `with` block of the file that it has locked, one has the file in an attribute of such a block's
manager, one has its descriptor in a variable. Another thread has the same numbers in variables, and uses no file.
With the argument "chroot" the process then makes its working directory its root directory.
Prints one JSON line about itself, see tests/support/samples.py.
"""

import fcntl
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

THREADS: "dict[str, dict[str, object]]" = {}
LOCKS: "dict[str, dict[str, object]]" = {}
READ_END, WRITE_END = os.pipe()
LOCKED: "dict[str, int]" = {}
WANTED = {"block": "variable", "variable": "attribute", "attribute": "block"}


class Guard:
    def __init__(self, path: str) -> None:
        self.file = open(path, "rb+")  # noqa: SIM115

    def __enter__(self) -> "Guard":
        fcntl.flock(self.file, fcntl.LOCK_EX)
        return self

    def __exit__(self, *error: object) -> None:
        self.file.close()


def enrol(role: str, syscall: str) -> None:
    THREADS[role] = {"tid": threading.get_native_id(), "python_name": threading.current_thread().name, "blocked": True,
                     "syscall": syscall, "stack": []}


def start(role: str, target: Callable[[], object], syscall: str) -> None:
    def run() -> None:
        enrol(role, syscall)
        target()

    threading.Thread(target=run, name=role, daemon=True).start()


def until(condition: Callable[[], object]) -> None:
    while not condition():
        time.sleep(0.002)


def want(role: str, held: int) -> None:
    """Wait for the file of another thread."""
    LOCKED[role] = held
    until(lambda: len(LOCKED) == len(WANTED))
    wanted = os.open(f"{WANTED[role]}.lock", os.O_RDWR)
    LOCKS[f"{WANTED[role]}.lock"] = {
        "kind": "file-lock", "address": hex(wanted), "state": "locked", "mode": "exclusive", "holders": [],
        "really": [WANTED[role]], "waiters": [role], "candidates": [WANTED[role]], "evidence": None}
    fcntl.flock(wanted, fcntl.LOCK_EX)


def in_block() -> None:
    with open("block.lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        want("block", file.fileno())


def in_attribute() -> None:
    os.close(os.open("attribute.lock", os.O_CREAT, 0o600))
    with Guard("attribute.lock") as guard:
        want("attribute", guard.file.fileno())


def in_variable() -> None:
    descriptor = os.open("variable.lock", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    want("variable", descriptor)


def rest(number: int) -> "Any":
    return os.read(READ_END, 1), number


def main() -> None:
    start("block", in_block, "flock")
    start("attribute", in_attribute, "flock")
    start("variable", in_variable, "flock")
    until(lambda: len(LOCKS) == len(WANTED))
    for number in LOCKED.values():
        start(f"other-{number}", lambda number=number: rest(number), "read")  # type: ignore[misc]
    until(lambda: len(THREADS) == 2 * len(WANTED))
    until(lambda: waiting() == len(WANTED))
    enrol("main", "read")
    if sys.argv[1:] == ["chroot"]:
        os.chroot(".")
    print(json.dumps({"sample": "file_users", "variant": "all", "pid": os.getpid(), "threads": THREADS, "locks": LOCKS,
                      "deadlock": [], "stuck_behind": []}), flush=True)
    os.read(READ_END, 1)


def waiting() -> int:
    """The number of requests of this process for locks that are not granted."""
    with open("/proc/locks") as file:
        return sum("->" in line and f" {os.getpid()} " in line for line in file)


if __name__ == "__main__":
    main()
