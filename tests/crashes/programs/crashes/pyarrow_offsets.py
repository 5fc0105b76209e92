"""An array of strings whose offsets lead out of its buffer.

Truth: {"says": ["SIGSEGV", "read \\d+ bytes at 0x\\w+: not mapped", "StringArray._getitem_py|StringScalar", "rows at"], "packages": ["pyarrow"]}
"""

import array

import pyarrow


def rows(values):
    return values.to_pylist()


offsets = array.array("i", [0, 1 << 30, 2])
rows(pyarrow.Array.from_buffers(pyarrow.string(), 2, [None, pyarrow.py_buffer(offsets), pyarrow.py_buffer(b"abc")]))
