"""An extension reads a list without its lock while another thread of free-threaded Python clears it.

Truth: {"says": ["SIGSEGV", "total_length", "called by consume", "raced with.{0,160}produce"], "python": ["3.14t", "3.13t"]}
"""

import ctypes
import sys
import threading

lib = ctypes.PyDLL(sys.argv[1])
lib.total_length.argtypes = [ctypes.py_object]
items = []


def produce():
    n = 0
    while True:
        n += 1
        items.append("item %d" % n)
        if len(items) > 8:
            items.pop(0)
            items.clear()


def consume():
    while True:
        lib.total_length(items)


for f in (produce, consume, consume):
    threading.Thread(target=f).start()
