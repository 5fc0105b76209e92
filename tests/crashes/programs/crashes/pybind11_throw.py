"""An exception of Python leaves a thread of C++.

Truth: {"says": ["SIGABRT", "pybind11::error_already_set: ValueError: the tile is empty", "operator\\(\\)|call_elsewhere"], "never": "in pybind11::", "packages": ["pybind11"], "flags": ["-O1"]}
"""

import sys

sys.path.insert(0, sys.argv[1].rpartition("/")[0])
import pybind11_throw


def callback():
    raise ValueError("the tile is empty")


def start():
    pybind11_throw.call_elsewhere(callback)


start()
