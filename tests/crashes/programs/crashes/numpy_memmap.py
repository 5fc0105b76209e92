"""A file that is mapped as an array becomes shorter.

Truth: {"says": ["SIGBUS", "data.bin, which is mapped, but the file ends before it: it was truncated", "average at"], "packages": ["numpy"]}
"""

import os

import numpy


def average(values):
    return numpy.add(values, 1.0)


values = numpy.memmap("data.bin", dtype="float64", mode="w+", shape=(1 << 20,))
values[:] = 1
values.flush()
os.truncate("data.bin", 4096)
average(values)
