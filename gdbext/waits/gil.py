"""Threads that wait for a GIL: asleep, between two sleeps, or awake inside the functions that wait."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import TYPE_CHECKING

from gdbext.errors import if_unreadable
from gdbext.glibc.futex import FutexWait
from gdbext.locks.seen import Orphaned, SeenLock, SeenWait, held_by
from gdbext.model import DERIVED
from gdbext.model.reasons import because
from gdbext.runtimes.names import public_name
from gdbext.threads.python_side import SeenGil
from gdbext.threads.threads import SeenThread

if TYPE_CHECKING:
    from gdbext.waits.context import Context

#: Most frames on top of a stack that are searched for `take_gil`.
_TAKE_GIL_DEPTH = 8
#: Functions of the C library in which a thread waits for the GIL, and the largest size of their frames.
_WAITING_FUNCTIONS = ("pthread_cond_timedwait", "pthread_cond_clockwait", "pthread_mutex_lock")
_MAX_WAIT_FRAMES = 4096


def gil_lock(gil: SeenGil) -> SeenLock:
    """A GIL as a `SeenLock`."""
    held = held_by((gil.holder,)) if gil.orphan is None else Orphaned(gil.orphan, gil.orphan_evidence)
    return SeenLock("gil", gil.state.address, gil.state.state, held=held, why=gil.why, number=gil.number)


def gil_wait(seen: SeenThread, context: Context) -> SeenWait | None:
    """A thread's wait for a GIL."""
    has_state = context.python.thread(seen.number).tstate is not None
    for gil in context.python.gils:
        wait = None
        if gil.holder != seen.number:
            if seen.futex is not None:
                wait = _sleeping_wait(context, gil, seen.futex)
            elif has_state and not (seen.call is not None and seen.call.blocked):
                wait = _wait_between_sleeps(context, gil, seen)
        if wait is not None:
            return wait
    return None


def lone_gil_waits(waits: Mapping[int, SeenWait], context: Context) -> dict[int, SeenWait]:
    """Find waits for a GIL whose holder has been asked to release it, where only one thread can have asked.

    A waiting thread that is stopped in the few microseconds between two sleeps is not in a system call. Since 3.9 the
    request is cleared when a thread gets the GIL, so a request means that a thread waits. Since 3.13 the request is
    stored in the thread state of the holder. Before, it is stored in the interpreter, and where interpreters share a
    GIL it may be an old one.

    Source: CPython 3.12 and 3.13 Python/ceval_gil.c, take_gil and drop_gil.
    """
    found: dict[int, SeenWait] = {}
    waited = {wait.lock.id for wait in waits.values() if wait.lock is not None}
    has_lock = {number for number, wait in waits.items() if wait.lock is not None}
    for gil in context.python.gils:
        interpreters = [interpreter for interpreter in gil.python.interpreters
                        if interpreter.gil is not None and interpreter.gil.address == gil.state.address]
        layouts = gil.python.runtime.layouts
        if gil.holder is None or gil.lock in waited or not any(each.drop_requested for each in interpreters):
            continue
        if not layouts.has("PyThreadState", "eval_breaker") and len(interpreters) != 1:
            continue
        able = [seen for seen in context.threads if seen.number != gil.holder and seen.number not in has_lock
                and seen.number not in found and context.python.thread(seen.number).tstates
                and (seen.call is None or not seen.call.blocked)]
        if len(able) == 1 and context.threads.all_available:
            found[able[0].number] = SeenWait(None, gil_lock(gil), evidence=DERIVED, why=because("holder-was-asked"))
    return found


def _sleeping_wait(context: Context, gil: SeenGil, futex: FutexWait) -> SeenWait | None:
    if gil.state.state == "disabled":
        return None
    if gil.state.is_waited_for(futex.address, futex.timed, _static_name(context, gil, futex.address)):
        # its sleep has a timeout, but then it only asks for the GIL again and sleeps again
        return SeenWait(None, gil_lock(gil))
    return None


def _wait_between_sleeps(context: Context, gil: SeenGil, seen: SeenThread) -> SeenWait | None:
    """A thread that wants the GIL wakes every 5 ms, asks for it and sleeps again, so it may be stopped awake."""
    if gil.state.state != "held":
        return None
    call, thread = seen.call, context.python.thread(seen.number)
    if thread.tstate is not None and thread.python is gil.python and thread.tstate.gil_requested:
        return SeenWait(None, gil_lock(gil))  # CPython 3.15 and later record it
    if call is not None and call.name in ("futex", None):
        # it has just returned from the kernel and has not run an instruction since, so it still waits
        address, timeout = call.arguments[0], call.arguments[3]
        if gil.state.is_waited_for(address, timeout != 0, _static_name(context, gil, address)):
            return SeenWait(None, gil_lock(gil))
    elif call is None and thread.python is gil.python and _in_wait_for(context, gil, seen):
        return SeenWait(None, gil_lock(gil))
    elif call is None and thread.python is gil.python and _in_take_gil(context, seen):
        return SeenWait(None, gil_lock(gil), evidence=DERIVED, why=because("runs-take-gil"))
    return None


def _static_name(context: Context, gil: SeenGil, address: int) -> str | None:
    # CPython 3.6 has its GIL in static variables, which only symbols distinguish
    if not gil.state.shared or context.code.module(address) is not gil.python.runtime.module:
        return None
    return context.code.symbol(address).function


@if_unreadable(False)
def _in_wait_for(context: Context, gil: SeenGil, seen: SeenThread) -> bool:
    """Whether a thread is awake inside a function of the C library in which it waits for the GIL.

    The interpreter has called that function, and the address of a word of the GIL is in a register, or on the stack
    below the interpreter's frame. The names of these functions are exported.
    """
    native = seen.native(context.code)[:_TAKE_GIL_DEPTH]
    depth = next((i for i, (pc, _) in enumerate(native) if context.python.interpreter_code[pc]), 0)
    if not depth or not any(public_name(context.code.symbol(pc, i).function or "") in _WAITING_FUNCTIONS
                            for i, (pc, _) in enumerate(native[:depth])):
        return False
    low, high = seen.sp & ~7, native[depth][1]
    if not 0 < high - low <= _MAX_WAIT_FRAMES:
        return False
    words = struct.unpack(f"<{(high - low) // 8}Q", context.memory.read(low, (high - low) // 8 * 8))
    return any(gil.state.is_waited_for(word, True, _static_name(context, gil, word))
               for word in {*words, *seen.registers.values()})


def _in_take_gil(context: Context, seen: SeenThread) -> bool:
    # it may have called other functions to compute when to wake
    for i, (pc, _) in enumerate(seen.native(context.code)[:_TAKE_GIL_DEPTH]):
        if context.python.interpreter_code[pc] and public_name(context.code.symbol(pc, i).function or "") == "take_gil":
            return True
    return False
