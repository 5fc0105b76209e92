"""An extension calls PyGILState_Release in the main thread, which has released the GIL.

Truth: {"says": ["SIGABRT", "Fatal Python error: PyGILState_Release: thread state 0x[0-9a-f]+ must be current when releasing", "finish_call", "without the GIL|detached"],
        "never": "%p|%s", "python": ["debian", "3.9", "3.13", "3.13t"]}
"""

import ctypes
import sys

ctypes.CDLL(sys.argv[1]).finish_call(0)
