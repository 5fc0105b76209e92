"""A column whose buffer another library had described with a bad address.

Truth: {"says": ["SIGSEGV", "0x1000, not an address: 4096 is too small", "sum_reduce", "summed at"], "packages": ["polars", "pyarrow"]}
"""

import polars
import pyarrow


def summed(values):
    return polars.from_arrow(values).sum()


summed(pyarrow.Array.from_buffers(pyarrow.int64(), 100, [None, pyarrow.foreign_buffer(0x1000, 800)]))
