"""An object has a borrowed reference to a freed one, which the garbage collector visits.

Truth: {"says": ["SIGSEGV", "Python object", "node_traverse", "called by sweep"], "python": ["debian", "3.13"]}
"""

import ctypes
import gc
import sys

lib = ctypes.PyDLL(sys.argv[1])
lib.node_type.restype = ctypes.py_object
Node = lib.node_type()


class Payload:
    __slots__ = ("a", "b")


def build():
    return [Node(Payload()) for _ in range(50)]


nodes = build()


def sweep():
    gc.collect()


x = [Payload() for _ in range(30)]
sweep()
