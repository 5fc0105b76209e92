"""An array whose memory a mapping had that was closed.

Truth: {"says": ["SIGSEGV", "read \\d+ bytes at 0x\\w+: not mapped", "scale at"], "packages": ["numpy"]}
"""

import ctypes
import gc
import mmap

import numpy


def scale(values):
    values *= 2.0


mapping = mmap.mmap(-1, 1 << 20)
address = ctypes.addressof(ctypes.c_char.from_buffer(mapping))
values = numpy.ctypeslib.as_array(ctypes.cast(address, ctypes.POINTER(ctypes.c_double)), (1000,))
gc.collect()
mapping.close()
scale(values)
