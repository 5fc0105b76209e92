"""Threads that sleep for a short time in a loop of their program, until a condition holds."""

from __future__ import annotations

from dataclasses import replace

from gdbext.cpython.loops import find_condition
from gdbext.locks.seen import SeenWait
from gdbext.model import Polling
from gdbext.threads.threads import SeenThread
from gdbext.waits.context import Context

#: A longer sleep is not a short one, in seconds.
_SHORT = 60.0
#: In how many of the innermost functions the loop may be.
_MOST_FRAMES = 4
#: System calls that sleep, besides those that wait for a descriptor.
_SLEEPS = frozenset(("nanosleep", "clock_nanosleep", "select", "pselect6", "poll", "ppoll"))


def find_polling(seen: SeenThread, wait: SeenWait, context: Context) -> Polling | None:
    """The loop in which a thread sleeps; None if it does not sleep for a short time, or if the loop has no condition.

    A loop that only an exception leaves, as ``while True``, is the work of a thread.
    """
    name = seen.call.name or wait.syscall if seen.call is not None else None
    # a core does not have the time, so a sleep until a set time may have been a short one
    seconds = 0.0 if wait.seconds is None and context.target.kind == "core" else wait.seconds
    if wait.lock is not None or not wait.timed or name not in _SLEEPS or seconds is None or seconds > _SHORT:
        return None
    for reader, stack in context.python_locks.stacks(seen.number):
        for raw in stack[:_MOST_FRAMES]:
            code = reader.functions.bytecode(raw.code)
            at = find_condition(code, raw.offset) if code is not None else None
            if at is not None:
                frame = replace(raw.frame, line=reader.frames.line(raw.code, at) or raw.frame.line, columns=None)
                # the deadline of this call is recorded, not how long it was to last
                return Polling(frame, None if name == "clock_nanosleep" else wait.seconds)
    return None
