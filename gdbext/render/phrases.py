"""What reports of all kinds call the same: text and pages of HTML."""

from __future__ import annotations

from gdbext.model import RESULT_STATES, SHARED, WORLD_TO_STOP
from gdbext.model.kinds import kind_of

#: What a thread does that waits for a descriptor, by the lock's state.
ON_DESCRIPTOR = {"waiting to read": "waits to read from", "waiting to write": "waits to write to",
                 "waiting for events": "waits for events of", "waiting for a connection": "waits for a connection to",
                 "connecting": "connects", "waiting for a file lock": "waits for the file lock of",
                 "waiting for the disk": "waits for the disk to write", "waiting to copy": "waits to copy from",
                 "waiting for completions": "waits for completions in", "waiting in ioctl": "waits in ioctl on"}


def is_event(kind: str, state: str, is_held: bool) -> bool:
    """Whether a lock is waited for as an event is: any thread may bring it, and it may be work to do.

    A thread that waits for the result of others' work is not idle: its program needs that result to go on.
    """
    return kind_of(kind).is_event and state not in RESULT_STATES and not is_held


def wait_mode(kind: str, mode: str) -> str:
    """How a thread waits for a lock, as the end of "waits"."""
    return " to read" if mode == SHARED else " to write" if kind_of(kind).has_readers else ""


def held_words(kind: str, state: str, name: str | None) -> str:
    """What holders of a lock do with it, before their names."""
    row = kind_of(kind)
    if row.gathers:
        return f"{state}, still to come:"
    if row.stops_world and name == WORLD_TO_STOP:
        return f"{state}:"
    if row.held is not None:
        return row.held
    return {"write-locked": "write-locked by", "read-locked": "read-locked by"}.get(state, "held by")


def holding_world(name: str | None) -> str:
    """What a thread does that others wait for to pause or to resume an interpreter, after the lock's name."""
    return " up: it has not stopped" if name == WORLD_TO_STOP else ": it has requested it"
