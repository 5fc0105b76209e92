"""Shared by the Python programs in which a callback and another thread want a lock of Python and one of a library."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

LEDGER = threading.Lock()
CALLED: list[int] = []
WRITING: list[int] = []


def called_back() -> None:
    """Wait until the other thread has the lock, and request it. The caller has a lock of its library."""
    CALLED.append(1)
    while not WRITING:
        time.sleep(0.001)
    with LEDGER:
        pass


def write(then: Callable[[], object]) -> None:
    """Take the lock, wait for the callback, and call a function that requests the lock of the library."""
    with LEDGER:
        WRITING.append(1)
        while not CALLED:
            time.sleep(0.001)
        then()


def wait_for_both() -> None:
    """Wait until the callback goes on and the other thread has the lock."""
    while not WRITING or not CALLED:
        time.sleep(0.001)
