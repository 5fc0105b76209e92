"""The same without symbols: the panic in flight says that it is Rust.

Truth: {"says": ["SIGABRT", "a Rust panic at \\S+.rs:5:\\d+: index out of bounds: the len is 3 but the index is 7", "load at"], "flags": ["-O", "-Cstrip=symbols"]}
"""

import ctypes
import sys


def load(number):
    return ctypes.CDLL(sys.argv[1]).first_pixel(number)


load(16)
