"""The kernel's record of a thread's robust mutexes, which is in the thread's descriptor."""

from __future__ import annotations

import ctypes


def robust_list(tid: int, number: int) -> int | None:
    """The address of the ``struct robust_list_head`` of any thread; None if there is none, or we may not read it.

    Source: Linux man-pages 6.05, get_robust_list(2).

    :param number: the system call's number on this machine.
    """
    head, size = ctypes.c_uint64(), ctypes.c_size_t()
    failed = ctypes.CDLL(None).syscall(ctypes.c_long(number), ctypes.c_long(tid), ctypes.byref(head),
                                       ctypes.byref(size))
    return head.value or None if not failed else None
