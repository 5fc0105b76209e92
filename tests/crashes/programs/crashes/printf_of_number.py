"""C's printf() is given a number where it takes a string.

Truth: {"says": ["SIGSEGV", "0x3039, not an address: 12345 is too small", "show at"], "never": "was returned by strerror"}
"""

import ctypes


def show(number):
    ctypes.CDLL(None).printf(b"%s\\n", number)


show(12345)
