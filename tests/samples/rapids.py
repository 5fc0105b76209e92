"""The RAPIDS deadlock without a GPU: the GIL and a lock inside a driver, taken in opposite order.

A worker is inside the driver, holds the driver's lock and wants the GIL for a callback; the main thread holds
the GIL and wants the driver's lock. Runs on CPython 3.6 and later, needs only the compiled drv.c.
Prints one JSON line about itself, see tests/support/samples.py, and then hangs.
"""

import argparse
import ctypes
import json
import os
import sys
import threading
from types import FrameType
from typing import Callable, Iterator

RWLOCK, MUTEX = 0, 1
VARIANTS = ("rwlock", "mutex", "readers", "readers-bystander")
CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)


class Driver:
    """The driver twice: `free` releases the GIL in calls, `holding` keeps it, as careless extensions do."""

    def __init__(self, library: str) -> None:
        self.free = ctypes.CDLL(library)
        self.holding = ctypes.PyDLL(library)
        self.holding.drv_alloc.argtypes = [ctypes.c_long]
        self.holding.drv_alloc.restype = ctypes.c_long
        self.free.drv_lock_address.restype = ctypes.c_void_p
        self.free.drv_thread_id.restype = ctypes.c_long


class Witness:
    """Knows what the program does, and prints it at the last possible moment."""

    def __init__(self, driver: Driver, variant: str) -> None:
        self.driver = driver
        self.variant = variant
        self.threads = {}  # type: dict[str, tuple[int, threading.Thread]]

    def enrol(self, role: str) -> None:
        """Called by each thread itself, before it enters the driver: only it can ask for its own number."""
        native_id = getattr(threading, "get_native_id", None)  # since 3.8
        tid = native_id() if native_id else self.driver.free.drv_thread_id()
        self.threads[role] = (tid, threading.current_thread())

    def tell_and_pass(self, value: int) -> int:
        """Print the truth; called for an argument, so the caller stands at the line of the hanging call."""
        caller = sys._getframe(1)
        frames = sys._current_frames()
        threads = {}
        for role, (tid, thread) in self.threads.items():
            frame = caller if role == "main" else frames[thread.ident or 0]
            threads[role] = {
                "tid": tid,
                "python_name": thread.name,
                "blocked": role != "bystander",
                "syscall": "read" if role == "bystander" else "futex",
                "stack": list(stack(frame)),
            }
        sys.stdout.write(json.dumps(self.truth(threads)) + "\n")
        sys.stdout.flush()
        return value

    def truth(self, threads: "dict[str, dict[str, object]]") -> "dict[str, object]":
        workers = [role for role in threads if role.startswith("worker")]
        shared = self.variant.startswith("readers")
        edges = [["main", "table", worker] for worker in workers]
        edges += [[worker, "gil", "main"] for worker in workers]
        table = {
            "kind": "mutex" if self.variant == "mutex" else "rwlock",
            "address": hex(self.driver.free.drv_lock_address()),
            "state": "locked" if self.variant == "mutex" else "read-locked" if shared else "write-locked",
            "mode": "shared" if shared else "exclusive",
            # what can be known from outside; `really` is what this program knows
            "holders": workers,
            "really": workers,
            "waiters": ["main"],
            "candidates": [],
            "evidence": "derived" if shared else "recorded",
        }
        gil = {
            "kind": "gil",
            "address": None,
            "state": "held",
            "mode": "exclusive",
            "holders": ["main"],
            "really": ["main"],
            "waiters": workers,
            "candidates": [],
            "evidence": "recorded",
        }
        return {
            "sample": "rapids",
            "variant": self.variant,
            "pid": os.getpid(),
            "threads": threads,
            "locks": {"table": table, "gil": gil},
            "deadlock": edges,
            "stuck_behind": [],
        }


def stack(frame: "FrameType | None") -> "Iterator[tuple[str, str, int]]":
    """Function, file and line of every Python frame, innermost first."""
    while frame is not None:
        yield frame.f_code.co_name, frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back


def on_event(event: int) -> int:
    """Handle an event of the driver: never reached, the GIL is not available."""
    return event


def dispatch(witness: Witness, shared: bool) -> int:
    handler = CALLBACK(on_event)
    return int(witness.driver.free.drv_dispatch(handler, int(shared)))


def worker_loop(witness: Witness, role: str, shared: bool) -> None:
    witness.enrol(role)
    handled = 0
    while handled < 1000:
        handled += dispatch(witness, shared)


def telemetry_loop(witness: Witness, descriptor: int) -> None:
    witness.enrol("bystander")
    while witness.driver.free.drv_watch(descriptor) == 1:
        pass


def allocate(witness: Witness, nbytes: int) -> int:
    return int(witness.driver.holding.drv_alloc(witness.tell_and_pass(nbytes)))


def run_pipeline(witness: Witness, batches: int) -> int:
    total = 0
    for batch in range(batches):
        total += allocate(witness, 4096 << batch)
    return total


def start(name: str, target: "Callable[..., None]", *arguments: object) -> None:
    threading.Thread(target=target, args=arguments, name=name, daemon=True).start()


def map_page_of(number: int) -> None:
    """Make a number a mapped address, as the heap of a program at a fixed address makes 10**9 in some runs."""
    mmap = ctypes.CDLL(None).mmap
    mmap.restype = ctypes.c_void_p
    mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    # PROT_READ; MAP_PRIVATE, MAP_ANONYMOUS, MAP_FIXED_NOREPLACE
    mmap(number & ~0xFFF, 0x1000, 1, 0x2 | 0x20 | 0x100000, -1, 0)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--lock", choices=VARIANTS, default=VARIANTS[0])
    parser.add_argument("--driver", required=True, help="path of the compiled drv.c")
    parser.add_argument("--switch-interval", type=float, metavar="SECONDS", help="how long a waiter of the GIL sleeps")
    options = parser.parse_args()
    if options.switch_interval:
        sys.setswitchinterval(options.switch_interval)
        map_page_of(int(options.switch_interval * 1e6))

    driver = Driver(options.driver)
    if driver.free.drv_open(MUTEX if options.lock == "mutex" else RWLOCK):
        sys.exit("drv_open failed")
    witness = Witness(driver, options.lock)
    witness.enrol("main")

    shared = options.lock.startswith("readers")
    start("gpu-callbacks", worker_loop, witness, "worker", shared)
    if shared:
        start("gpu-callbacks-2", worker_loop, witness, "worker2", shared)
    driver.free.drv_await_holders(2 if shared else 1)
    if options.lock == "readers-bystander":
        descriptor, _writing_end = os.pipe()
        start("telemetry", telemetry_loop, witness, descriptor)
        driver.free.drv_await_watching(1)
    run_pipeline(witness, 3)


if __name__ == "__main__":
    main()
