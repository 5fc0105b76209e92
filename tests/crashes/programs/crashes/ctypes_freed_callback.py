"""A library calls a callback of ctypes whose object was not kept.

Truth: {"says": ["SIGSEGV|SIGABRT", "object that was freed|callback must be kept alive", "poll_device", "called by poll"],
        "python": ["3.9", "3.13", "3.14t"]}
"""

import ctypes
import gc
import sys

library = ctypes.CDLL(sys.argv[1])
CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)


def set_up():
    library.set_hook(CALLBACK(lambda number: number + 1))


def poll():
    return library.poll_device(7)


set_up()
gc.collect()
others = [CALLBACK(lambda number: number) for _ in range(3)]
del others
gc.collect()
print(poll())
