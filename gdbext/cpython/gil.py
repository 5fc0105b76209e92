"""The GIL: ``struct _gil_runtime_state``. Who holds it, and which addresses its waiters sleep on."""

from __future__ import annotations

from dataclasses import dataclass

from gdbext.errors import CorruptStructure
from gdbext.layout.table import Layouts
from gdbext.target.protocol import Memory

#: No switch interval is longer than this, in microseconds (100 s); a larger one means that this is no GIL.
_MAX_INTERVAL = 10**8


@dataclass(frozen=True)
class GilState:
    """A decoded GIL.

    `state` is ``held``, ``free``, ``disabled`` or ``unknown`` (not created yet). `holder` is the
    ``PyThreadState *`` that holds it, None unless held.
    """

    address: int
    state: str
    holder: int | None
    size: int


def decode_gil(memory: Memory, layouts: Layouts, address: int) -> GilState:
    """Decode a GIL.

    Source: CPython 3.13 Include/internal/pycore_gil.h, Python/ceval_gil.c. ``last_holder`` keeps the thread that
    had the GIL last, so it names the holder only while ``locked`` is 1.

    :param address: ``struct _gil_runtime_state *``.
    :raises CorruptStructure: it is no GIL.
    """
    known = layouts["_gil_runtime_state"]
    interval, last_holder, locked = known.reader("interval", "last_holder", "locked")(memory, address)
    enabled = 1
    if "enabled" in known:  # free-threaded builds: 0 while the GIL is off
        enabled, = known.reader("enabled")(memory, address)
    if locked not in (-1, 0, 1) or not 0 <= interval <= _MAX_INTERVAL:
        raise CorruptStructure(address, "this is no GIL")
    if not enabled:
        return GilState(address, "disabled", None, known.size)
    state = {1: "held", 0: "free", -1: "unknown"}[locked]
    return GilState(address, state, last_holder if locked == 1 else None, known.size)


def waits_for_gil(layouts: Layouts, gil: int, futex: int) -> bool:
    """Whether a thread that sleeps on a futex word wants the GIL.

    It waits on the GIL's condition variable, is about to take its mutex again, or has just given the GIL away on
    request and waits to see that somebody took it.

    :param gil: ``struct _gil_runtime_state *``.
    :param futex: address that the thread sleeps on.
    """
    known = layouts["_gil_runtime_state"]
    return any(gil + known.offset(member) <= futex < gil + known.offset(member) + known[member].size
               for member in ("cond", "mutex", "switch_cond", "switch_mutex") if member in known)
