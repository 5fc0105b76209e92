"""Ctrl-C while GDB attaches to a process, which GDB would send on to the process."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator


@contextlib.contextmanager
def interrupts_blocked() -> Iterator[None]:
    """Block SIGINT; one that comes meanwhile is delivered to GDB afterwards.

    A GDB that gets SIGINT while it waits for a process to stop sends it on (GDB 13.1 gdb/linux-nat.c, pass_ctrlc): most
    processes die of it when GDB detaches.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT,))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
