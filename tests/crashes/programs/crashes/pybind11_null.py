"""None is passed for a pointer of C++.

Truth: {"says": ["SIGSEGV", "a null pointer", "in measure\\(\\)", "ask at"], "never": "inlined into pybind11", "packages": ["pybind11"], "flags": ["-O1"]}
"""

import sys

sys.path.insert(0, sys.argv[1].rpartition("/")[0])
import pybind11_null


def ask():
    return pybind11_null.measure(None)


ask()
