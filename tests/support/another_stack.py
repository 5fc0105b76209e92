"""A program that calls Python on a separate stack, where older CPython does not link Python and native frames."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from tests.support import interpreters, samples

#: Calls Python on a separate stack: the native stack ends there, the Python stack continues. CPython 3.10 and earlier
#: do not record which native frame runs a Python frame.
ANOTHER_STACK = '''\
import ctypes, json, os

libc = ctypes.CDLL(None)
here, there = ctypes.create_string_buffer(4096), ctypes.create_string_buffer(4096)
stack = ctypes.create_string_buffer(1 << 20)


@ctypes.CFUNCTYPE(None)
def inside():
    wait(5)


def wait(count):
    thread = {"tid": os.getpid(), "python_name": "MainThread", "blocked": True, "syscall": "read", "stack": []}
    print(json.dumps({"sample": "another stack", "variant": "", "pid": os.getpid(), "threads": {"main": thread},
                      "locks": {}, "deadlock": [], "stuck_behind": []}), flush=True)
    os.read(0, 1)


def outside():
    libc.getcontext(there)
    # ucontext_t: uc_flags, uc_link, then uc_stack: ss_sp, ss_flags, ss_size
    members = ctypes.cast(there, ctypes.POINTER(ctypes.c_size_t))
    members[1], members[2], members[4] = ctypes.addressof(here), ctypes.addressof(stack), len(stack)
    libc.makecontext(there, inside, 0)
    libc.swapcontext(here, there)


outside()
'''
#: The program's Python functions, innermost first.
CALLS = ["wait", "inside", "outside", "<module>"]


@contextlib.contextmanager
def running(name: str, directory: Path) -> Iterator[tuple[samples.Sample, Path, bool]]:
    """Run the program; yields it, the interpreter, and whether that has symbols."""
    python, symbols = interpreters.use(name)
    directory.mkdir(exist_ok=True)
    program = directory / "another_stack.py"
    program.write_text(ANOTHER_STACK)
    with samples.running([python, program], directory) as sample:
        yield sample, python, symbols
