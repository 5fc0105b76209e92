"""Whether descriptors of two processes refer to one open file, as they do after ``fork``."""

from __future__ import annotations

from typing import NamedTuple

from gdbext.inferior.libc import syscall

#: Linux 6.1 include/uapi/linux/kcmp.h: ``KCMP_FILE``.
_KCMP_FILE = 0


class Descriptor(NamedTuple):
    """An open file descriptor of any process, with the debugger's number of the process."""

    pid: int
    fd: int


class OpenFiles:
    """Compares the open files of descriptors.

    Source: Linux man-pages 6.05, kcmp(2).

    :param kcmp: the number of the system call on this machine; None if it is not known.
    """

    def __init__(self, kcmp: int | None) -> None:
        self._number = kcmp

    def is_same(self, one: Descriptor, other: Descriptor) -> bool | None:
        """Whether two descriptors refer to one open file; None if we may not know, or the kernel cannot."""
        if self._number is None:
            return None
        import ctypes  # only where a file that others have open is waited for

        order = syscall()(
            ctypes.c_long(self._number), ctypes.c_long(one.pid), ctypes.c_long(other.pid), ctypes.c_long(_KCMP_FILE),
            ctypes.c_ulong(one.fd), ctypes.c_ulong(other.fd))
        return None if order < 0 else order == 0
