"""A native SIGALRM handler of a library crashes while Python computes.

Python code called nothing of it: the kernel interrupted it.

Truth: {"says": ["SIGSEGV", "take_snapshot", "SIGALRM.{0,250}interrupted .{0,200}simulate"],
        "never": "(take_snapshot|on_alarm)\\(\\)[^,]{0,200}, called by", "python": ["debian", "3.9", "3.13"]}
"""

import ctypes
import sys

library = ctypes.CDLL(sys.argv[1])


def simulate():
    total = 0
    while True:
        total += 1


library.arm()
simulate()
