"""An extension releases a thread state twice: PyGILState_Release in a thread that has none any more.

Truth: {"says": ["SIGABRT", "Fatal Python error: PyGILState_Release: (auto-releasing thread-state, but no thread-state for this thread|thread state 0x[0-9a-f]+ must be current when releasing)", "finish_call"],
        "never": "%p|%s", "python": ["debian", "3.9", "3.13", "3.13t"]}
"""

import ctypes
import sys

ctypes.CDLL(sys.argv[1]).call_twice()
