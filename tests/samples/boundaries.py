"""Threads that hang in Python code that something else than Python has called; nothing is deadlocked.

A scene is a function that has something call `hang`, by the way that the scene is about. Each runs in a thread of its
own, except the signal handler's, which is in the main thread. Prints one JSON line, see tests/support/samples.py.
"""

import argparse
import ctypes
import gc
import importlib.util
import json
import os
import signal
import sys
import threading
import time
import types
from typing import Callable, Dict, Optional

LIBC = ctypes.CDLL(None)
NEVER_READABLE, _WRITING_END = os.pipe()
GETTID = 186  # on x86-64
#: Thread by role, when it is about to hang.
ARRIVED: "Dict[str, int]" = {}
SCENES: "Dict[str, Callable[[argparse.Namespace], object]]" = {}


def scene(function: "Callable[[argparse.Namespace], object]") -> "Callable[[argparse.Namespace], object]":
    SCENES[function.__name__] = function
    return function


def hang(*_: object) -> int:
    role = threading.current_thread().name
    ARRIVED[role] = LIBC.syscall(GETTID)
    os.read(NEVER_READABLE, 1)
    return 0


@scene
def ctypes_callback(options: argparse.Namespace) -> object:
    signature = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)

    def called_back(value: int) -> int:
        return hang()

    return ctypes.CDLL(options.library).apply(signature(called_back), 1)


@scene
def cffi_callback(options: argparse.Namespace) -> object:
    import cffi  # type: ignore[import-untyped]

    interface = cffi.FFI()
    interface.cdef("int apply(int (*callback)(int), int value);")

    def called_back(value: int) -> int:
        return hang()

    library = interface.dlopen(options.library)
    return library.apply(interface.callback("int(int)", called_back), 1)


@scene
def cffi_compiled(options: argparse.Namespace) -> object:
    module = extension(options.cffi)

    def called_back(value: int) -> int:
        return hang()

    module.ffi.def_extern()(called_back)
    return module.lib.apply(module.lib.called_back, 1)


@scene
def pybind11_call(options: argparse.Namespace) -> object:
    return extension(options.pybind11).run(hang)


@scene
def nanobind_call(options: argparse.Namespace) -> object:
    return extension(options.nanobind).run(hang)


def extension(file: str) -> types.ModuleType:
    """Import an extension module, which is called as its file is."""
    name = os.path.basename(file).partition(".")[0]
    specification = importlib.util.spec_from_file_location(name, file)
    assert specification
    assert specification.loader
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@scene
def cython_call(options: argparse.Namespace) -> object:
    return extension(options.cython).run(hang)


@scene
def numpy_ufunc(options: argparse.Namespace) -> object:
    import numpy  # type: ignore[import-not-found]

    return numpy.frompyfunc(hang, 1, 1)(numpy.arange(3, dtype=object))


@scene
def numba_function(options: argparse.Namespace) -> object:
    import numba  # type: ignore[import-not-found]

    # numba pickles what it calls, by name unless it is of the main module
    hang.__module__ = "boundaries"
    sys.modules["boundaries"] = sys.modules["__main__"]

    def add_one(value: int) -> int:
        with numba.objmode():
            hang()
        return value + 1

    return numba.njit(add_one)(1)


@scene
def rust_hash(options: argparse.Namespace) -> object:
    rpds = importlib.import_module("rpds")

    class Key:
        def __hash__(self) -> int:
            return hang()

    return rpds.HashTrieMap().insert(Key(), 1)


@scene
def collected(options: argparse.Namespace) -> object:
    class Node:
        def __init__(self) -> None:
            self.me = self

        def __del__(self) -> None:
            hang()

    Node()
    return gc.collect()


@scene
def allocating(options: argparse.Namespace) -> object:
    class Node:
        def __init__(self) -> None:
            self.me = self

        def __del__(self) -> None:
            hang()

    Node()
    process = os.getpid()
    gc.set_threshold(1)
    gc.enable()
    # up to 3.11 a set's allocation collects; later ones leave that to where signals are looked for, as os.kill does
    return {process}, {process}, {process}, os.kill(process, 0)  # type: ignore[func-returns-value]


@scene
def last_reference(options: argparse.Namespace) -> object:
    class Node:
        def __del__(self) -> None:
            hang()

    node = Node()
    del node
    return None


@scene
def importing(options: argparse.Namespace) -> object:
    import shelf.book  # type: ignore[import-not-found]

    return shelf.book


def write_package() -> None:
    os.mkdir("shelf")
    with open("shelf/__init__.py", "w") as file:
        file.write("")
    with open("shelf/book.py", "w") as file:
        file.write("import __main__\n\n__main__.hang()\n")
    # its lines would not be relied on if it were newer than the process
    os.utime("shelf/book.py", (0, 0))
    sys.path.insert(0, os.getcwd())


def tell() -> None:
    threads = {role: {"tid": tid, "python_name": role, "blocked": True, "syscall": "read", "stack": []}
               for role, tid in ARRIVED.items()}
    print(json.dumps({"sample": "boundaries", "variant": "", "pid": os.getpid(), "threads": threads, "locks": {},
                      "deadlock": [], "stuck_behind": []}), flush=True)


def on_signal(number: int, frame: "Optional[types.FrameType]") -> None:
    ARRIVED["MainThread"] = os.getpid()
    tell()
    os.read(NEVER_READABLE, 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", required=True, help="compiled boundaries.c")
    parser.add_argument("--cffi", help="compiled boundaries.c, as cffi has wrapped it")
    parser.add_argument("--pybind11", help="compiled boundaries_pybind11.cpp")
    parser.add_argument("--nanobind", help="compiled boundaries_nanobind.cpp")
    parser.add_argument("--cython", help="compiled boundaries_cython.pyx")
    parser.add_argument("scenes", nargs="+", choices=list(SCENES))
    options = parser.parse_args()
    write_package()
    # a collection elsewhere would run what is to be run in the thread that asks for it
    gc.disable()
    for role in options.scenes:
        threading.Thread(target=SCENES[role], args=(options,), name=role, daemon=True).start()
        while role not in ARRIVED:
            time.sleep(0.001)
    signal.signal(signal.SIGUSR1, on_signal)
    os.kill(os.getpid(), signal.SIGUSR1)


if __name__ == "__main__":
    main()
