"""Strides that lead out of an array.

Truth: {"says": ["SIGSEGV", "read 8 bytes at 0x\\w+: not mapped", "pairwise_sum", "total at"], "packages": ["numpy"]}
"""

import numpy


def total(values):
    return numpy.lib.stride_tricks.as_strided(values, shape=(1 << 30,), strides=(1 << 20,)).sum()


total(numpy.ones(10))
