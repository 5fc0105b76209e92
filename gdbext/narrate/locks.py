"""The holders of a lock, its waiters, and the locks that a thread holds."""

from __future__ import annotations

from gdbext.model import RESULT_STATES, SHARED, WORLD_TO_STOP, Hold, Lock, Thread
from gdbext.model.kinds import kind_of
from gdbext.narrate.names import Facts, lock_name, lock_of_id, number_list, thread_list
from gdbext.narrate.words import Foreign, Marked, Words, in_parentheses, known_by, reason

#: What a list of locks says that has none.
NONE_CHOSEN = "No thread waits for such a lock."


def is_event(lock: Lock) -> bool:
    """Whether a lock is waited for as an event is: any thread may bring it, and it may be work to do.

    A thread that waits for the result of another thread's work is not idle: its program needs the result.
    """
    return kind_of(lock.kind).is_event and lock.state not in RESULT_STATES and not lock.holders


def wait_mode(kind: str, mode: str) -> str:
    """How a thread waits for a lock, as the end of "waits"."""
    return " to read" if mode == SHARED else " to write" if kind_of(kind).has_readers else ""


def _held(lock: Lock) -> str:
    """What the holders of a lock do with it, before their names."""
    row = kind_of(lock.kind)
    if row.gathers:
        return f"{lock.state}, still to come:"
    if row.stops_world and lock.name == WORLD_TO_STOP:
        return f"{lock.state}:"
    if row.held is not None:
        return row.held
    return {"write-locked": "write-locked by", "read-locked": "read-locked by"}.get(lock.state, "held by")


def held_at_arrow(lock: Lock) -> str:
    """What the holders of a lock do with it, in two words."""
    kind = kind_of(lock.kind)
    if kind.gathers:
        return "still to come"
    if kind.stops_world and lock.name == WORLD_TO_STOP:
        return "not stopped"
    return "held by" if not kind.held else kind.held


def held_by(facts: Facts, lock: Lock) -> Words:
    """The holders of a lock, as the end of a sentence."""
    if kind_of(lock.kind).ends_thread:
        return ()
    if lock.holders:
        first = lock.holders[0]
        return (f", {_held(lock)} ", *thread_list(facts, [holder.thread for holder in lock.holders]),
                *known_by(first.evidence, first.why))
    why = in_parentheses(lock.why)
    if lock.orphan:
        return (", held by nobody alive: ", reason(lock.orphan), *why)
    if lock.candidates:
        return (f", {lock.state}; holders not recorded, candidates: {number_list(lock.candidates)}", *why)
    return (", free",) if lock.state == "free" else (f", {lock.state}", *why)


def holding(facts: Facts, hold: Hold) -> Words:
    """A lock that a thread holds, behind "holds"; nothing where the lock is the end of the thread itself."""
    lock = facts.locks.get(hold.lock)
    if lock is None:
        return (*lock_of_id(facts, hold.lock), *known_by(hold.evidence, hold.why))
    kind = kind_of(lock.kind)
    if kind.ends_thread:
        return ()
    if kind.stops_world:
        does = " up: it has not stopped" if lock.name == WORLD_TO_STOP else ": it has requested it"
        return (Marked("lock", (f"{lock.kind} {lock.address:#x}",), lock.id), does)
    mode = " for reading" if hold.mode == SHARED and not kind.gathers else ""
    return (*lock_name(facts, lock), mode, *known_by(hold.evidence, hold.why))


def holds(facts: Facts, hold: Hold) -> str:
    """The verb before `holding`."""
    lock = facts.locks.get(hold.lock)
    return "is still to come to" if lock is not None and kind_of(lock.kind).gathers else "holds"


def waiting(facts: Facts, thread: Thread) -> Words:
    """What a thread waits for, behind "waits for"."""
    wait, lock = thread.waits, facts.awaited(thread)
    assert wait is not None
    timed = ", with a timeout" if wait.timed else ""
    if lock is None:
        return (*lock_of_id(facts, wait.lock), timed)
    return (*lock_name(facts, lock), wait_mode(lock.kind, wait.mode), *held_by(facts, lock), timed,
            *known_by(wait.evidence, wait.why))


def waited_for(lock: Lock) -> list[str]:
    """The waiters of a lock, a line for each mode."""
    lines = []
    for mode in ("exclusive", "shared"):
        numbers = [waiter.thread for waiter in lock.waiters if waiter.mode == mode]
        if numbers:
            lines.append(f"waited for{wait_mode(lock.kind, mode)} by {number_list(numbers)}")
    return lines or ["nobody waits for it"]


def outside(lock: Lock) -> Words:
    """What a descriptor is called."""
    return (Foreign(lock.name or lock.id, 1000),)
