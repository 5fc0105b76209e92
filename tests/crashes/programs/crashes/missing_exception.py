"""An extension does not check whether a dictionary has a key.

Truth: {"says": ["SIGSEGV", "returned by PyDict_GetItemString", "parse_header", "called by parse"],
        "python": ["debian", "3.13"]}
"""

import ctypes
import sys

library = ctypes.PyDLL(sys.argv[1])
library.parse_header.argtypes = [ctypes.py_object]


def parse(line):
    return library.parse_header(line)


parse({"length": 10})
parse({})
