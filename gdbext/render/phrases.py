"""What reports of all kinds call the same: text and pages of HTML."""

from __future__ import annotations

from gdbext.model import RESULT_STATES

#: What a thread does that waits for a descriptor, by the lock's state.
ON_DESCRIPTOR = {"waiting to read": "waits to read from", "waiting to write": "waits to write to",
                 "waiting for events": "waits for events of", "waiting for a connection": "waits for a connection to",
                 "connecting": "connects", "waiting for a file lock": "waits for the file lock of",
                 "waiting for the disk": "waits for the disk to write", "waiting to copy": "waits to copy from",
                 "waiting for completions": "waits for completions in", "waiting in ioctl": "waits in ioctl on"}
#: Kinds of locks at which a thread waits until any other thread wakes it, unless one holds the lock.
_EVENTS = ("condvar", "semaphore", "py-condition", "py-event", "py-semaphore", "openmp-barrier")
#: Kinds of locks whose holders are those that others wait for to come.
GATHERING = ("barrier", "openmp-barrier")


def is_event(kind: str, state: str, is_held: bool) -> bool:
    """Whether a lock is waited for as an event is: any thread may bring it, and it may be work to do.

    A thread that waits for the result of others' work is not idle: its program needs that result to go on.
    """
    return kind in _EVENTS and state not in RESULT_STATES and not is_held
