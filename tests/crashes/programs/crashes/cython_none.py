"""Code that Cython made without checks takes None for an object of its own type.

Truth: {"says": ["SIGSEGV", "the pointer was read from offset 0x\\w+ of None, which was used as another object", "in cython_none.weigh\\(\\)|in program.weigh\\(\\)", "walk at"], "never": "in Py_INCREF", "packages": ["cython"]}
"""

import sys

sys.path.insert(0, sys.argv[1].rpartition("/")[0])
import cython_none


def walk():
    first, last = cython_none.Node(), cython_none.Node()
    first.next = last
    return cython_none.weigh(first)


walk()
