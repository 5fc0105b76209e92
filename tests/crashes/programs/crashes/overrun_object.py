"""A library writes beyond the end of a buffer, over an object; the garbage collector finds it later.

Truth: {"says": ["SIGSEGV", "ure=21.5", "other code.{0,60}has probably damaged it earlier"], "never": "object of type list", "python": ["debian", "3.13"]}
"""

import ctypes
import gc
import sys

lib = ctypes.CDLL(sys.argv[1])


class Row:
    pass


rows = [bytearray(40) for _ in range(200)]
keep = [Row() for _ in range(200)]
mixed = [[i, i] for i in range(100)]
addresses = sorted(map(id, mixed))


def decode(buffer):
    lib.decode_line(ctypes.c_void_p(addresses[50] - 24), b"temperature=21.5;humidity=40;pressure=1013")


decode(rows[100])
gc.collect()
