"""Threads in a loop of short waits: of the program, until a condition holds; of a library, until a peer answers."""

from __future__ import annotations

from dataclasses import replace

from gdbext.cpython.code.bytecode import Bytecode
from gdbext.cpython.code.lock_calls import iter_places
from gdbext.cpython.code.loops import Condition, find_condition
from gdbext.cpython.frames import RawFrame
from gdbext.cpython.values import Limits
from gdbext.errors import GdbextError
from gdbext.locks.python_reader import Reader
from gdbext.locks.seen import SeenLock, SeenWait
from gdbext.model import Local, Polling
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
#: Most variables of a condition that are shown, and how much of each.
_MOST_VALUES = 4
_LIMITS = Limits(depth=1, items=4, characters=60, reads=64)
#: Types whose values are parts of the program, not of its state.
_CODE = frozenset(("module", "function", "builtin_function_or_method", "method", "type"))
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
            condition = find_condition(code, raw.offset) if code is not None else None
            if code is not None and condition is not None:
                line = reader.frames.line(raw.code, condition.start)
                frame = replace(raw.frame, line=line or raw.frame.line, columns=None)
                values = tuple(_values(reader, raw, code, condition)) if context.python_locks.shows_values else ()
                # the deadline of this call is recorded, not how long it was to last
                return Polling(frame, None if name == "clock_nanosleep" else wait.seconds, values)
    return None


def _values(reader: Reader, raw: RawFrame, code: Bytecode, condition: Condition) -> list[Local]:
    """The variables in a condition with their values; those that cannot be read are left out."""
    found: list[Local] = []
    try:
        names, version = reader.functions.names(raw.code), reader.layouts.version_tuple
        for place in dict.fromkeys(iter_places(code, names, version, condition.tests, raw.frame.is_module)):
            value = reader.places.value(raw, place)
            kind = reader.values.type_name(value) if value else ""
            if value and kind not in _CODE and len(found) < _MOST_VALUES:
                found.append(Local(str(place), kind, reader.values.text(value, _LIMITS)))
    except (GdbextError, IndexError):
        pass
    return found


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
