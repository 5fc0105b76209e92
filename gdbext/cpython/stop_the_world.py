"""Stop-the-world of CPython 3.13 and later: the thread that asked all others to stop, and those that have not stopped.

A stopped thread waits at the ``state`` of its thread state. The requester waits at ``stop_event``, a millisecond at a
time, until all attached threads have stopped.

Sources: CPython 3.13 Include/internal/pycore_interp.h (struct _stoptheworld_state), Python/pystate.c (stop_the_world).
"""

from __future__ import annotations

from gdbext.errors import if_unreadable
from gdbext.inferior.protocol import Memory
from gdbext.layout.table import Layouts
from gdbext.record import record


@record
class StopState:
    """A ``struct _stoptheworld_state`` of an interpreter, or of the whole runtime.

    `event` is the address of ``stop_event``, `requester` a ``PyThreadState *`` (0 for a thread without one), and
    `countdown` the number of threads that have not stopped yet.
    """

    address: int
    event: int
    requested: bool
    stopped: bool
    countdown: int
    requester: int


@if_unreadable(None)
def read_stop_state(memory: Memory, layouts: Layouts, address: int) -> StopState | None:
    """Decode a ``struct _stoptheworld_state *``; None if it is unreadable or implausible."""
    known = layouts["_stoptheworld_state"]
    requested, stopped, countdown, requester = known.reader(
        "requested", "world_stopped", "thread_countdown", "requester")(memory, address)
    if requested not in (0, 1) or stopped not in (0, 1) or countdown < 0:
        return None
    event = address + known.offset("stop_event")
    return StopState(address, event, bool(requested), bool(stopped), countdown, requester)


def interpreters_stop(memory: Memory, layouts: Layouts, interpreter: int) -> StopState | None:
    """The stop of one interpreter (``PyInterpreterState *``); None before CPython 3.13."""
    if not layouts.has("PyInterpreterState", "stoptheworld") or "_stoptheworld_state" not in layouts:
        return None
    return read_stop_state(memory, layouts, interpreter + layouts["PyInterpreterState"].offset("stoptheworld"))


def runtimes_stop(memory: Memory, layouts: Layouts, runtime: int) -> StopState | None:
    """The stop of all interpreters of a runtime (``_PyRuntimeState *``); None except in free-threaded builds."""
    if layouts.build != "free-threaded" or not layouts.has("_PyRuntimeState", "stoptheworld"):
        return None
    return read_stop_state(memory, layouts, runtime + layouts["_PyRuntimeState"].offset("stoptheworld"))
