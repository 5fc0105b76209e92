"""An extension has an object tracked by the garbage collector twice: an assertion about that object fails.

Truth: {"says": ["SIGABRT", "Fatal Python error: \\w*PyObject_GC_Track: object already tracked by the garbage collector \\((probably )?object 0x\\w+ of type list\\)", "keep_list", "register at"], "never": "_PyObject_AssertFailed: _PyObject", "python": ["debian", "3.9", "3.13"]}
"""

import ctypes
import sys

library = ctypes.PyDLL(sys.argv[1])
library.keep_list.argtypes = [ctypes.py_object]


def register():
    library.keep_list([1, 2])


register()
