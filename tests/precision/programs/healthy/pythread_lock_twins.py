"""Functions of an extension that look as if they held a `PyThread_type_lock`: those of mutex_twins.hpp, and others.

The others have tried to acquire the lock, and that has failed.

The holder of each lock is another thread, which sleeps for a while.

Truth: {"expect": "healthy", "pythons": ["3.11", "3.13"], "extension": "pythread_lock_twins.cpp", "flags": ["-O2"]}
"""

import ctypes
import os

if __name__ == "__main__":
    ctypes.CDLL(os.environ["PRECISION_EXTENSION"]).run()
