"""A release callback that does not do what Arrow's C interface asks for: Arrow writes that and aborts.

Truth: {"says": ["SIGABRT", "ArrowArrayRelease did not cleanup release callback", "in ArrowArrayRelease", "load at"], "packages": ["pyarrow"]}
"""

import ctypes

import pyarrow


class CArray(ctypes.Structure):
    pass


RELEASE = ctypes.CFUNCTYPE(None, ctypes.POINTER(CArray))
CArray._fields_ = [
    *((name, ctypes.c_int64) for name in ("length", "null_count", "offset", "n_buffers", "n_children")),
    *((name, ctypes.c_void_p) for name in ("buffers", "children", "dictionary")),
    ("release", RELEASE), ("private", ctypes.c_void_p)]


@RELEASE
def release(_):
    pass


data = ctypes.create_string_buffer(80)
buffers = (ctypes.c_void_p * 2)(None, ctypes.addressof(data))
exported = CArray(10, 0, 0, 2, 0, ctypes.addressof(buffers), None, None, release, None)


def load():
    values = pyarrow.Array._import_from_c(ctypes.addressof(exported), pyarrow.int64())
    del values


load()
