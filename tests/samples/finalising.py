"""A Python that is about to end and does not: the destructor of a global object waits in the driver with the GIL held.

By then a daemon thread asks for the GIL. What becomes of it differs between versions: it waits, ends, or is put to
sleep forever. Runs on CPython 3.6 and later. Prints one JSON line about itself and reads from standard input.
"""

import ctypes
import json
import os
import sys
import threading


class Last:
    """Destroyed when modules have lost their globals: all that it needs then it holds itself."""

    def __init__(self, tids: "dict[str, int]", writing: int) -> None:
        threads = {
            role: {"tid": tid, "python_name": None, "blocked": False, "syscall": None, "stack": []}
            for role, tid in tids.items()
        }  # type: dict[str, dict[str, object]]
        line = Last.__del__.__code__.co_firstlineno + 3
        threads["main"].update(syscall="read", stack=[["__del__", __file__, line]])
        truth = {"sample": "finalising", "variant": "daemon", "pid": os.getpid(), "threads": threads,
                 "locks": {}, "deadlock": [], "stuck_behind": []}
        self.truth = (json.dumps(truth) + "\n").encode()
        self.write = os.write
        self.writing = writing
        # keeps the GIL; returns when a byte comes
        self.linger = ctypes.PyDLL(sys.argv[1]).drv_watch

    def __del__(self) -> None:
        self.write(1, self.truth)
        self.write(self.writing, b"x")
        self.linger(0)


def main() -> Last:
    driver = ctypes.CDLL(sys.argv[1])
    reading, writing = os.pipe()
    # releases the GIL, and requests it again when a byte has arrived; a function of this module would keep its globals
    threading.Thread(target=driver.drv_watch, args=(reading,), daemon=True).start()
    driver.drv_await_watching(1)
    main_thread = os.getpid()
    (daemon,) = {int(name) for name in os.listdir("/proc/self/task")} - {main_thread}
    return Last({"main": main_thread, "daemon": daemon}, writing)


last = main()
