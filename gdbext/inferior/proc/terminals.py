"""Pseudoterminals: which end a descriptor is, and of which terminal.

A program that has a master, such as a terminal emulator, sshd or pexpect, reads and writes what the programs at the
terminal write and read.

Sources: pty(7); Linux 6.1 drivers/tty/pty.c (pty_show_fdinfo), Documentation/filesystems/proc.rst.
"""

from __future__ import annotations

import re

from gdbext.inferior.proc.fdinfo import DescriptorInfo
from gdbext.inferior.proc.status import namespace_of

#: The links of all masters. Only their fdinfo has the number of the terminal.
MASTERS = ("/dev/ptmx", "/dev/pts/ptmx")
_TERMINAL = re.compile(r"^/dev/pts/(\d+)$")


def is_end(link: str) -> bool:
    """Whether a descriptor's link is an end of a pseudoterminal."""
    return link in MASTERS or _TERMINAL.match(link) is not None


def terminal_of(link: str, info: DescriptorInfo | None) -> int | None:
    """The number of the terminal whose one end a descriptor is; None if that is not known."""
    if link in MASTERS:
        return info.terminal if info is not None else None
    match = _TERMINAL.match(link)
    return int(match[1]) if match else None


def other_links(link: str, number: int) -> tuple[str, ...]:
    """The links that descriptors of the other end may have."""
    return (f"/dev/pts/{number}",) if link in MASTERS else MASTERS


def see_same(one: int, other: int, root: str = "/proc") -> bool:
    """Whether two processes mean the same terminal by a number: each container has terminals of its own."""
    own = namespace_of(one, "mnt", root)
    return own is not None and own == namespace_of(other, "mnt", root)
