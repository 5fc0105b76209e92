"""An extension drops references to None that it does not own.

Truth: {"says": ["SIGABRT", "Fatal Python error: none_dealloc: deallocating None", "drop_all"],
        "never": "%s", "python": ["debian", "3.9"]}
"""

import ctypes
import sys

ctypes.PyDLL(sys.argv[1]).drop_all()
