"""A buffer with a bad address.

Truth: {"says": ["SIGSEGV", "0x1000, not an address: 4096 is too small", "SumImpl", "summed at"], "packages": ["pyarrow"]}
"""

import pyarrow
import pyarrow.compute


def summed(values):
    return pyarrow.compute.sum(values)


summed(pyarrow.Array.from_buffers(pyarrow.int64(), 100, [None, pyarrow.foreign_buffer(0x1000, 800)]))
