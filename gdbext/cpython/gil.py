"""Decodes the GIL: its holder, and the addresses that waiting threads sleep on.

Since CPython 3.7 it is a ``struct _gil_runtime_state``; in 3.6 it is a handful of static variables.
"""

from __future__ import annotations

from gdbext.errors import CorruptStructure, MemoryUnreadable
from gdbext.inferior.cache import read_u64
from gdbext.inferior.protocol import Memory, Module
from gdbext.layout.table import Layouts
from gdbext.model import GilStatus
from gdbext.record import record

#: Switch intervals up to this are plausible (100 s, in microseconds); a larger one may be an address.
_USUAL_INTERVAL = 10**8
#: Intervals below this may be mapped addresses: of the heap of a program at a fixed address.
_MAX_MAPPED = 1 << 32
#: The longest plausible interval (317 years): some programs set one that means "never".
_MAX_INTERVAL = 10**16
#: The static variables of CPython 3.6 that threads waiting for the GIL sleep on.
_STATIC_WORDS = ("gil_cond", "gil_mutex", "switch_cond", "switch_mutex")


@record
class GilState:
    """A decoded GIL.

    `state` is ``unknown`` before it is created. `holder` is a ``PyThreadState *``, None unless held. `waiting` are the
    address ranges that waiting threads sleep on; if `shared`, they contain other variables too (CPython 3.6).
    """

    address: int
    state: GilStatus
    holder: int | None
    size: int
    waiting: tuple[tuple[int, int], ...] = ()
    shared: bool = False

    def is_waited_for(self, futex: int, timed: bool, symbol: str | None) -> bool:
        """Whether a thread that sleeps on a futex word waits for the GIL.

        Such a thread sleeps on the GIL's condition variable, on its mutex, or, after it released the GIL on request,
        until another thread has taken it.

        :param timed: whether it sleeps with a timeout, as all threads that wait for the GIL do.
        :param symbol: name of the variable at the word, if known.
        """
        if not any(low <= futex < high for low, high in self.waiting):
            return False
        if not self.shared:
            return True
        # without symbols: threads sleep with a timeout on no other word of the interpreter's data
        return symbol.startswith(_STATIC_WORDS) if symbol else timed


def decode_gil(memory: Memory, layouts: Layouts, address: int) -> GilState:
    """Decode a GIL of CPython 3.7 or later.

    Source: CPython 3.13 Include/internal/pycore_gil.h, Python/ceval_gil.c. ``last_holder`` keeps the thread that
    had the GIL last, so it names the holder only while ``locked`` is 1.

    :param address: ``struct _gil_runtime_state *``.
    :raises CorruptStructure: the structure is not a GIL.
    """
    known = layouts["_gil_runtime_state"]
    interval, last_holder, locked = known.reader("interval", "last_holder", "locked")(memory, address)
    enabled = 1
    if "enabled" in known:  # free-threaded builds: 0 while the GIL is off
        enabled, = known.reader("enabled")(memory, address)
    if locked not in (-1, 0, 1) or not (
            _is_interval(memory, interval)
            or interval < _MAX_MAPPED and interval != last_holder and _is_thread_state(memory, layouts, last_holder)):
        raise CorruptStructure(address, "this is not a GIL")
    words = tuple((address + known.offset(member), address + known.offset(member) + known[member].size)
                  for member in ("cond", "mutex", "switch_cond", "switch_mutex") if member in known)
    if not enabled:
        return GilState(address, "disabled", None, known.size, words)
    state: GilStatus = "held" if locked == 1 else "free" if locked == 0 else "unknown"
    return GilState(address, state, last_holder if locked == 1 else None, known.size, words)


def _is_interval(memory: Memory, microseconds: int) -> bool:
    """Whether a number may be an argument of ``sys.setswitchinterval()``: plausible, and not a mapped address."""
    if not _USUAL_INTERVAL < microseconds <= _MAX_INTERVAL:
        return 0 <= microseconds <= _USUAL_INTERVAL
    try:
        memory.read(microseconds, 1)
    except MemoryUnreadable:
        return True
    return False


def _is_thread_state(memory: Memory, layouts: Layouts, address: int) -> bool:
    """Whether an address is that of a thread state: its interpreter's first thread state has the same interpreter.

    An interval of 1,000 s looks like an address in the heap of a program at a fixed address. Memory that is not a GIL
    does not have a thread state at the place of ``last_holder``, too.
    """
    interpreter_of = layouts["PyThreadState"].reader("interp")
    try:
        interpreter, = interpreter_of(memory, address)
        first, = layouts["PyInterpreterState"].reader("tstate_head")(memory, interpreter)
        return bool(interpreter) and interpreter_of(memory, first) == (interpreter,)
    except MemoryUnreadable:
        return False


def decode_static_gil(memory: Memory, module: Module, current: int) -> GilState:
    """Decode the GIL of CPython 3.6.

    Source: CPython 3.6 Python/ceval_gil.h, Python/pystate.c: the exported ``_PyThreadState_Current`` is the thread that
    holds the GIL; the condition variables are static and stored in ``.bss``.

    :param current: address of ``_PyThreadState_Current``.
    """
    holder = read_u64(memory, current)
    section = module.section(".bss")
    return GilState(current, "held" if holder else "free", holder or None, 8,
                    ((section.start, section.end),) if section is not None else (), shared=True)
