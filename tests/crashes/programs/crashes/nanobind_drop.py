"""A Python object of nanobind is destroyed by a thread without the GIL: nanobind writes that and aborts.

Truth: {"says": ["SIGABRT", "Critical nanobind error: attempted to change the reference count of a Python object or to call into Python while the GIL was not held", "in drop"], "never": "in nanobind::", "packages": ["nanobind"], "flags": ["-O1"]}
"""

import sys

sys.path.insert(0, sys.argv[1].rpartition("/")[0])
import nanobind_drop


class Thing:
    pass


def give():
    nanobind_drop.drop_elsewhere(Thing())


give()
