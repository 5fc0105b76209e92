"""Threads in a loop of short waits: of the program, until a condition holds; of a library, until a peer answers."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from gdbext.cpython.code.bytecode import Bytecode
from gdbext.cpython.code.lock_calls import Place, iter_attributes, iter_places, iter_results
from gdbext.cpython.code.loops import Condition, find_condition, is_call
from gdbext.cpython.frames import RawFrame
from gdbext.cpython.signals import handled_signals
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
#: Methods that take the next of several: a condition that calls one reads data, and does not wait for a state.
_TAKES = frozenset((
    "fetchmany", "fetchone", "get", "get_nowait", "next", "pop", "popleft", "read", "read1", "readinto", "readline",
    "readlines", "recv", "recv_bytes", "recv_into"))
#: Packages that poll for a lock file, with the variable of its path, and those with the time of the first attempt.
_LOCK_FILES = {"filelock": ("lock_filename", (Place(False, "wait", ("start_time",)), Place(False, "start_time")))}
#: Who uses such a lock for a short time has it no longer, in seconds.
_IN_USE = 1.0
#: Functions with which a loop says that it still waits, and what belongs to their calls.
_SAYS = frozenset((
    "debug", "error", "flush", "info", "log", "logger", "logging", "print", "sleep", "stderr", "stdout", "sys", "time",
    "warning", "write"))
#: Methods that return a flag of the program.
_FLAGS = frozenset(("is_set", "isSet"))
#: Most variables of a condition that are shown, and how much of each.
_MOST_VALUES = 4
_LIMITS = Limits(depth=1, items=4, characters=60, reads=64)
#: Types whose values are parts of the program, not of its state.
_CODE = frozenset(("module", "function", "builtin_function_or_method", "method", "type"))
#: System calls that sleep, besides those that wait for a descriptor.
_SLEEPS = frozenset(("nanosleep", "clock_nanosleep", "select", "pselect6", "poll", "ppoll"))


def find_polling(seen: SeenThread, wait: SeenWait, context: Context, holds: bool = False) -> Polling | None:
    """The loop in which a thread sleeps; None if it does not sleep for a short time, or if the loop has no condition.

    A loop that only an exception leaves, as ``while True``, is the work of a thread, and so is one that calls other
    functions, unless they return what its condition tests. The loop of a library may be that of a service, unless a
    library has called the function of the program that waits there.

    :param holds: whether the thread has a lock that others want: any loop with a condition counts.
    """
    name = seen.call.name or wait.syscall if seen.call is not None else None
    # a core does not have the time, so a sleep until a set time may have been a short one
    seconds = 0.0 if wait.seconds is None and context.target.kind == "core" else wait.seconds
    if wait.lock is not None or not wait.timed or name not in _SLEEPS or seconds is None or seconds > _SHORT:
        return None
    work = work_of(seen, context).at_work
    of_library = holds or work is not None and not work.is_module
    for reader, stack in context.python_locks.stacks(seen.number):
        for raw in stack[:_MOST_FRAMES]:
            package = library_of(raw.frame)
            path, times = _LOCK_FILES.get(package or "", (None, ()))
            if package is None:
                of_library = False  # the library around the program's function runs a service
            elif not of_library and path is None:
                continue
            code = reader.functions.bytecode(raw.code)
            condition = find_condition(code, raw.offset) if code is not None else None
            if code is not None and condition is not None:
                if not holds and path is None and _works(reader, raw, code, condition, context) or (
                        times and _has_begun(reader, raw, times, context)):
                    return None
                line = reader.frames.line(raw.code, condition.start)
                frame = replace(raw.frame, line=line or raw.frame.line, columns=None)
                values = tuple(_values(reader, raw, code, condition, path)) if (
                    context.python_locks.shows_values) else ()
                # the deadline of this call is recorded, not how long it was to last
                return Polling(frame, None if name == "clock_nanosleep" else wait.seconds, values)
    return None


def _works(reader: Reader, raw: RawFrame, code: Bytecode, condition: Condition, context: Context) -> bool:
    """Whether a loop is the work of a thread: it reads data, or does something until a flag ends the program.

    A flag may be changed by another thread, or by the handler of a signal.
    """
    try:
        names, version, module = reader.functions.names(raw.code), reader.layouts.version_tuple, raw.frame.is_module
        tested = {*iter_attributes(code, names, version, condition.tests)}
        variables = {place.variable for place in iter_places(code, names, version, condition.tests, module)}
        called = {*iter_attributes(code, names, version, condition.body)}
        called.update(place.variable for place in iter_places(code, names, version, condition.body, module)
                      if place.is_global)
        is_made = not variables.isdisjoint(iter_results(code, names, version, condition.body))
    except (GdbextError, IndexError):
        return False
    if not _TAKES.isdisjoint(tested) or is_made:
        return not _TAKES.isdisjoint(tested | called)
    if sum(is_call(code.instructions[i]) for i in condition.body) > 1 and called - _SAYS:
        return True
    is_flag = not any(is_call(code.instructions[i]) for i in condition.tests) or not _FLAGS.isdisjoint(tested)
    return is_flag and _may_change(context)


def _may_change(context: Context) -> bool:
    """Whether something may change a flag of the program: another thread, or the handler of a signal in Python."""
    return len(context.threads) > 1 or any(
        handled_signals(context.target.memory, python.runtime, python.objects) for python in context.python.pythons)


def _has_begun(reader: Reader, raw: RawFrame, times: Sequence[Place], context: Context) -> bool:
    """Whether a loop has just begun, by a variable with the time of its begin on the clock of ``perf_counter``."""
    now = context.target.proc.now(time.CLOCK_MONOTONIC) if context.target.proc is not None else None
    if now is None:
        return False
    for place in times:
        value = reader.places.value(raw, place)
        try:
            if value and reader.values.type_name(value) == "float":
                return now - float(reader.values.text(value, _LIMITS)) < _IN_USE
        except (GdbextError, ValueError):
            continue
    return False


def _values(reader: Reader, raw: RawFrame, code: Bytecode, condition: Condition, path: str | None) -> list[Local]:
    """The variables in a condition with their values; those that cannot be read are left out.

    :param path: the variable that says more than those of the condition, if there is one.
    """
    found: list[Local] = []
    try:
        names, version = reader.functions.names(raw.code), reader.layouts.version_tuple
        places = iter_places(code, names, version, condition.tests, raw.frame.is_module)
        for place in dict.fromkeys(places) if path is None else (Place(False, path),):
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
