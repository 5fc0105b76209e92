"""A program whose only thread takes a `threading.Lock` twice.

Prints one JSON line, see tests/support/samples.py, and hangs.
"""

import json
import os
import threading

table = threading.Lock()


def store() -> None:
    with table:
        raise AssertionError("the lock was free")


def load() -> None:
    with table:
        store()


def main() -> None:
    thread = {"tid": threading.get_native_id(), "python_name": "MainThread", "blocked": True, "syscall": "futex",
              "stack": []}
    print(json.dumps({"sample": "twice", "variant": "lock", "pid": os.getpid(), "threads": {"main": thread},
                      "locks": {}, "deadlock": [], "stuck_behind": []}), flush=True)
    load()


if __name__ == "__main__":
    main()
