"""The deadlock of rapids.py, reached in a loop that ran so often before that a JIT has compiled it.

The main thread calls functions of the driver in a loop, with the GIL held; only the last call wants the driver's
lock. Runs on CPython 3.6 and later, where there is no JIT too. Prints one JSON line about itself and hangs.
"""

import json
import sys
import threading
from typing import Callable

# from the folder of this file, which is not a package
from rapids import RWLOCK, Driver, Witness, stack, start, worker_loop  # type: ignore[import-not-found]

CALLS = 50000


def tell_ahead(witness: Witness, lines: int) -> None:
    """Print the truth; the caller will hang so many lines further down."""
    frames = sys._current_frames()
    threads = {}
    for role, (tid, thread) in witness.threads.items():
        found = [*stack(sys._getframe(1) if role == "main" else frames[thread.ident or 0])]
        if role == "main":
            name, file, line = found[0]
            found[0] = name, file, line + lines
        threads[role] = {"tid": tid, "python_name": thread.name, "blocked": True, "syscall": "futex", "stack": found}
    sys.stdout.write(json.dumps({**witness.truth(threads), "sample": "hot"}) + "\n")
    sys.stdout.flush()


def churn(witness: Witness, functions: "list[Callable[[int], int]]") -> None:
    tell_ahead(witness, 2)
    for function in functions:
        function(0)


def main() -> None:
    sys.setswitchinterval(1000)  # a thread waiting for the GIL sleeps on
    driver = Driver(sys.argv[1])
    if driver.free.drv_open(RWLOCK):
        sys.exit("drv_open failed")
    witness = Witness(driver, "rwlock")
    witness.enrol("main")
    start("gpu-callbacks", worker_loop, witness, "worker", False)
    driver.free.drv_await_holders(1)
    assert len(threading.enumerate()) == 2
    # this one waits for nobody and returns at once
    churn(witness, [driver.holding.drv_await_holders] * CALLS + [driver.holding.drv_alloc])


if __name__ == "__main__":
    main()
