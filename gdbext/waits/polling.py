"""Threads in a loop of short waits: of the program, until a condition holds; of a library, until a peer answers."""

from __future__ import annotations

from dataclasses import replace

from gdbext.cpython.code.loops import find_condition
from gdbext.locks.seen import SeenLock, SeenWait
from gdbext.model import Polling
from gdbext.model.frames import library_of
from gdbext.model.reasons import owes_answer, parts
from gdbext.threads.threads import SeenThread
from gdbext.waits.at_work import work_of
from gdbext.waits.context import Context

#: A longer sleep is not a short one, in seconds.
_SHORT = 60.0
#: In how many of the innermost functions the loop may be.
_MOST_FRAMES = 4
#: System calls that sleep, besides those that wait for a descriptor.
_SLEEPS = frozenset(("nanosleep", "clock_nanosleep", "select", "pselect6", "poll", "ppoll"))


def find_polling(seen: SeenThread, wait: SeenWait, context: Context) -> Polling | None:
    """The loop in which a thread sleeps; None if it does not sleep for a short time, or if the loop has no condition.

    A loop that only an exception leaves, as ``while True``, is the work of a thread. The loop of a library may be that
    of a service, unless a library has called the function of the program that waits there.
    """
    name = seen.call.name or wait.syscall if seen.call is not None else None
    # a core does not have the time, so a sleep until a set time may have been a short one
    seconds = 0.0 if wait.seconds is None and context.target.kind == "core" else wait.seconds
    if wait.lock is not None or not wait.timed or name not in _SLEEPS or seconds is None or seconds > _SHORT:
        return None
    work = work_of(seen, context).at_work
    is_called = work is not None and not work.is_module
    for reader, stack in context.python_locks.stacks(seen.number):
        for raw in stack[:_MOST_FRAMES]:
            if library_of(raw.frame) is not None and not is_called:
                continue
            code = reader.functions.bytecode(raw.code)
            at = find_condition(code, raw.offset) if code is not None else None
            if at is not None:
                frame = replace(raw.frame, line=reader.frames.line(raw.code, at) or raw.frame.line, columns=None)
                # the deadline of this call is recorded, not how long it was to last
                return Polling(frame, None if name == "clock_nanosleep" else wait.seconds)
    return None


def asks_again(seen: SeenThread, lock: SeenLock, context: Context) -> bool:
    """Whether a library waits again and again for a peer that does not answer, so that the timeout ends nothing.

    :param lock: the descriptors that the thread waits for.
    """
    # an event loop watches what wakes it, too, and its timeout is that of its next timer
    if not owes_answer(lock.why) or any(
            why.code == "watches" and ("count", 1) not in why.arguments for why in parts(lock.why)):
        return False
    for reader, stack in context.python_locks.stacks(seen.number):
        for raw in stack[:_MOST_FRAMES]:
            if library_of(raw.frame) is None:
                return False
            if reader.functions.repeats(raw.code, raw.offset):
                return True
    return False
