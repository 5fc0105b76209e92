"""ctypes reads a string at a small number, with faulthandler.

Truth: {"says": ["SIGSEGV", "read .{0,40}at 0x", "read_label"], "never": "sent by|called by __restore_rt",
        "python": ["debian", "3.9", "3.11", "3.13", "3.13t"], "env": {"PYTHONFAULTHANDLER": "1"}}
"""

import ctypes


def read_label(address):
    return ctypes.string_at(address, 10)


read_label(8)
