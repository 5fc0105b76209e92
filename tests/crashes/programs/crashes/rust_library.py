"""A panic in a library of Rust that C calls, and that nothing can catch; Rust's own functions are not guilty.

Truth: {"says": ["SIGABRT", "a Rust panic at \\S+.rs:5:39: index out of bounds: the len is 3 but the index is 7", "find_tile", "load at"], "never": "in core::|in std::|in alloc::", "flags": ["-O"]}
"""

import ctypes
import sys


def load(number):
    return ctypes.CDLL(sys.argv[1]).first_pixel(number)


load(16)
