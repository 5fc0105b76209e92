"""ctypes takes the pointer that a function returns for an int: the next call gets its lower half.

Truth: {"says": ["SIGSEGV", "lower half of the pointer", "restype", "device_status", "called by status"],
        "never": "was freed"}
"""

import ctypes
import sys

lib = ctypes.CDLL(sys.argv[1])


def open_device():
    return lib.device_open(b"/dev/null")


def status(handle):
    return lib.device_status(handle)


print(status(open_device()))
