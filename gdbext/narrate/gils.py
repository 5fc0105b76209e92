"""The GIL of each interpreter: its holder, its waiters, and requests to stop all threads."""

from __future__ import annotations

from gdbext.model import Gil, Interpreter, Report, Runtime
from gdbext.narrate.names import Facts, number_list, thread_name
from gdbext.narrate.words import Foreign, Marked, Words, reason

#: The states of Python threads without a GIL, and what each means.
_PYTHON_STATES = {"attached": "may run Python", "detached": "outside of Python",
                  "suspended": "stopped by another thread"}


def runtime_line(runtime: Runtime) -> Words:
    """The version of a runtime, its module, and the source of its layout."""
    return (*runtime_name(runtime), " in ", Foreign(runtime.module, 1000), f" (layout: {runtime.layout})")


def runtime_name(runtime: Runtime) -> Words:
    """The version of a runtime, and its build unless that is the default."""
    return (f"CPython {runtime.version}" + ("" if runtime.build == "default" else f", {runtime.build}"),)


def state(facts: Facts, gil: Gil) -> Words:
    """The state and the holder of a GIL."""
    if gil.state == "held" and gil.holder is not None:
        return (Marked("lock", ("GIL held",)), " by ", *thread_name(facts, gil.holder))
    if gil.state == "held":
        return ("GIL held, but its owner is gone", *((": ", reason(gil.orphan)) if gil.orphan else ()))
    words = {"free": "GIL free", "disabled": "no GIL (free-threaded)", "unknown": "GIL unknown"}
    return (words.get(gil.state, gil.state),)


def waiters(gil: Gil) -> list[str]:
    """The waiters of a GIL, and whether its holder was asked to release it; one line each."""
    if gil.waiters:
        asked = "; its holder has been asked to release it" if gil.drop_requested else ""
        return [f"waited for by {number_list(gil.waiters)}{asked}"]
    lines = ["no thread waits for it"] if gil.state in ("held", "free") else []
    return [*lines, "the holder has been asked to release it"] if gil.drop_requested else lines


def stop_requested(facts: Facts, interpreter: Interpreter) -> Words:
    """The thread that requested a stop of the world, and those that have not stopped; empty without a request."""
    stop = interpreter.stop_the_world
    if not stop.requested:
        return ()
    who: Words = thread_name(facts, stop.requester) if stop.requester is not None else ("an unknown thread",)
    waits = f", waiting for {number_list(stop.waiting_for)}" if stop.waiting_for else ""
    return ("stop-the-world requested by ", *who, waits)


def python_states(report: Report) -> list[str]:
    """The threads in each Python state, for a build without a GIL."""
    lines = []
    for name, meaning in _PYTHON_STATES.items():
        numbers = [thread.number for thread in report.threads if thread.python_state == name]
        if numbers:
            lines.append(f"{name} ({meaning}): {number_list(numbers)}")
    return lines
