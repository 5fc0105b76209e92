"""PyO3/pyo3#4771, earth-mover/icechunk#563: a mutex of Rust is kept while Rust code calls Python.

A thread has the mutex and calls Python, which needs the GIL. The main thread keeps the GIL and wants the mutex. The
library is compiled as wheels are, and stripped.

Truth: {"expect": "deadlock", "pythons": ["3.11", "3.13"], "extension": "rust_registry.rs",
        "edges": [["main", "rust-mutex", "worker"], ["worker", "gil", "main"]]}
"""

import ctypes
import os
import threading

from tests.precision.programs import scene

if __name__ == "__main__":
    path = os.environ["PRECISION_EXTENSION"]
    kind = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_uint64)
    is_inside, may_return = threading.Event(), threading.Event()

    def wait(value: int) -> int:
        is_inside.set()
        may_return.wait()
        return value

    callback = kind(wait)
    scene.thread("worker", ctypes.CDLL(path).with_registry, callback, 1)
    is_inside.wait()
    scene.ready()
    # the worker needs the GIL when it wakes up, and the call does not release the GIL
    keeping = ctypes.PyDLL(path)
    may_return.set()
    keeping.with_registry(callback, 2)
