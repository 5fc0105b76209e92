"""joblib/threadpoolctl#239: `dl_iterate_phdr` with a Python callback, and another thread calls it with the GIL held.

The dynamic linker calls back under its lock; threadpoolctl's callback is a Python function. NumPy called the same
function, through `backtrace`, without giving up the GIL.

Truth: {"expect": "deadlock", "pythons": ["3.11", "3.13"],
        "edges": [["main", "dynamic-linker", "lister"], ["lister", "gil", "main"]]}
"""

import ctypes
import threading

from tests.precision.programs import scene

called = threading.Event()


def look(info: int, size: int, data: int) -> int:
    called.set()
    number = 1
    while True:  # until another thread takes the GIL and keeps it
        number = number * 5 % 1000003


if __name__ == "__main__":
    callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)(look)
    free, keeping = ctypes.CDLL(None), ctypes.PyDLL(None)
    scene.thread("lister", free.dl_iterate_phdr, callback, None)
    called.wait()
    scene.ready()
    keeping.dl_iterate_phdr(callback, None)
