"""Functions of an extension that look as if they held a `PyMutex`: those of mutex_twins.hpp.

The holder of each mutex is another thread, which sleeps for a while.

Truth: {"expect": "healthy", "pythons": ["3.13t", "3.14t"], "extension": "py_mutex_twins.cpp", "flags": ["-O2"]}
"""

import ctypes
import os

if __name__ == "__main__":
    ctypes.CDLL(os.environ["PRECISION_EXTENSION"]).run()
