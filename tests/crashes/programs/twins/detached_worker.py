"""A thread of a library dies after the Python call that started it has returned: no Python code is in the library.

Truth: {"says": ["SIGSEGV", "in refresh"], "never": "of the same library"}
"""

import ctypes
import sys
import time

library = ctypes.CDLL(sys.argv[1])
library.start_refreshing()
time.sleep(10)
