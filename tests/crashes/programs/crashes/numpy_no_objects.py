"""An array of objects that contains numbers.

Truth: {"says": ["SIGSEGV", "0x10, not an address: 16 is too small", "OBJECT_getitem", "show at"], "packages": ["numpy"]}
"""

import ctypes

import numpy


def show():
    numbers = numpy.full(4, 0x10, dtype=numpy.int64)
    objects = numpy.ndarray((4,), dtype=object)
    ctypes.memmove(objects.ctypes.data, numbers.ctypes.data, 32)
    return repr(objects)


show()
