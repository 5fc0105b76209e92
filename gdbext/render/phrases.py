"""What reports of all kinds call the same: text and pages of HTML."""

from __future__ import annotations

#: What a thread does that waits for a descriptor, by the lock's state.
ON_DESCRIPTOR = {"waiting to read": "waits to read from", "waiting to write": "waits to write to",
                 "waiting for events": "waits for events of", "waiting for a connection": "waits for a connection to",
                 "connecting": "connects", "waiting for a file lock": "waits for the file lock of",
                 "waiting for the disk": "waits for the disk to write", "waiting to copy": "waits to copy from",
                 "waiting for completions": "waits for completions in", "waiting in ioctl": "waits in ioctl on"}
#: What threads wait for that have nothing to do; only where nobody holds it.
IDLE = ("condvar", "semaphore", "py-condition", "py-event", "py-semaphore", "openmp-barrier")
#: Kinds of locks whose holders are those that others wait for to come.
GATHERING = ("barrier", "openmp-barrier")
