"""A Python object of pybind11 is destroyed by a thread without the GIL.

Truth: {"says": ["SIGABRT", "std::runtime_error: pybind11::handle::dec_ref\\(\\) PyGILState_Check\\(\\) failure", "in Cache::~Cache|in drop"], "never": "in pybind11::handle", "packages": ["pybind11"], "flags": ["-O1"]}
"""

import sys

sys.path.insert(0, sys.argv[1].rpartition("/")[0])
import pybind11_drop


class Thing:
    pass


def give():
    pybind11_drop.drop_elsewhere(Thing())


give()
