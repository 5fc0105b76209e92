"""A library of Rust without symbols aborts for another reason after it has caught a panic.

Truth: {"says": ["SIGABRT", "called abort\\(\\)", "load at"], "never": "Rust panic|out of bounds", "flags": ["-O", "-Cstrip=symbols"]}
"""

import ctypes
import sys


def load(number):
    return ctypes.CDLL(sys.argv[1]).first_pixel(number)


load(16)
