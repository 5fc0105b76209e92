"""A worker of OpenMP dies in the parallel region of a function that Python has called.

Truth: {"says": ["SIGSEGV", "in body", "smooth_rows.{0,90}called by smooth"], "needs": ["/usr/lib/x86_64-linux-gnu/libgomp.so.1"]}
"""

import ctypes
import sys

lib = ctypes.CDLL(sys.argv[1])


def smooth(rows):
    return lib.smooth_rows(rows)


def main():
    smooth(64)


main()
