"""The C library of this process, for system calls that Python has no function for."""

from __future__ import annotations

import functools
from collections.abc import Callable


@functools.cache
def syscall() -> Callable[..., int]:
    """The C function that makes system calls: their number, then arguments, each a value of `ctypes`; returns ``long``.

    Source: Linux man-pages 6.05, syscall(2).
    """
    import ctypes  # few reports call it

    function: Callable[..., int] = ctypes.CDLL(None).syscall
    return function
