"""An extension passes the interpreter a pointer that is text: the interpreter's own data is not damaged.

Truth: {"says": ["SIGSEGV", "show_row", "called by show"], "never": "only its own data", "python": ["debian", "3.13"]}
"""

import ctypes
import sys

library = ctypes.PyDLL(sys.argv[1])


def show():
    library.show_row()


show()
