"""An index without checks that leads out of the address space.

Truth: {"says": ["SIGSEGV", "not a valid x86-64 address|not mapped", "pick\\(\\)", "read at"], "packages": ["cython"]}
"""

import array
import sys

sys.path.insert(0, sys.argv[1].rpartition("/")[0])
import cython_index


def read(index):
    return cython_index.pick(array.array("d", [1.0]), index)


read(1 << 40)
