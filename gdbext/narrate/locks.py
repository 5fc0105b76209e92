"""The holders of a lock, its waiters, and the locks that a thread holds."""

from __future__ import annotations

from gdbext.model import RESULT_PENDING, SHARED, WORLD_TO_STOP, Hold, Lock, Thread
from gdbext.model.kinds import kind_of, name_of_kind
from gdbext.narrate.names import Facts, lock_name, lock_of_id, number_list, thread_list
from gdbext.narrate.words import Marked, Words, in_parentheses, known_by, reason

#: The text of an empty list of locks.
NONE_CHOSEN = "No thread waits for such a lock."


def wait_mode(kind: str, mode: str) -> str:
    """The end of "waits" for a lock with readers and writers."""
    return " to read" if mode == SHARED else " to write" if kind_of(kind).behaviour == "rwlock" else ""


def _held(lock: Lock) -> str:
    """How a lock is held, followed by its holders."""
    if lock.state in ("write-locked", "read-locked"):
        return f"{lock.state} by"
    words = held_at_arrow(lock)
    return {"made by": "to be made by", "not arrived": f"{lock.state}, not arrived:",
            "not stopped": f"{lock.state}:"}.get(words, words)


def held_at_arrow(lock: Lock) -> str:
    """How a lock is held, in two words for an arrow."""
    kind = kind_of(lock.kind)
    if kind.gathers:
        return "not arrived"
    if kind.behaviour == "pause" and lock.name == WORLD_TO_STOP:
        return "not stopped"
    if lock.state == RESULT_PENDING:
        return "made by"
    return kind.held or "held by"


def held_by(facts: Facts, lock: Lock, why_nobody: bool = True) -> Words:
    """The holders or the state of a lock, at the end of a sentence.

    :param why_nobody: whether the reason why nobody makes a result follows.
    """
    if kind_of(lock.kind).behaviour == "thread-end":
        return ()
    if lock.holders:
        # how the holders are known is said where these hold the lock
        return (f", {_held(lock)} ", *thread_list(facts, [holder.thread for holder in lock.holders]))
    why = in_parentheses(lock.why)
    if lock.orphan:
        if lock.state == RESULT_PENDING:
            return (", which nobody makes", *(why if why_nobody else ()))
        return (", its owner is gone: ", reason(lock.orphan), *why)
    if lock.candidates:
        return (f", {lock.state}; holders not recorded, candidates: {number_list(lock.candidates)}", *why)
    return (", free",) if lock.state == "free" else (f", {lock.state}", *why)


def holding(facts: Facts, hold: Hold, why: bool = True) -> Words:
    """A lock that a thread holds, after `holds`; empty if the lock is the end of the thread itself.

    :param why: whether the evidence follows.
    """
    lock = facts.locks.get(hold.lock)
    known = known_by(hold.evidence, hold.why) if why else ()
    if lock is None:
        return (*lock_of_id(facts, hold.lock), *known)
    kind = kind_of(lock.kind)
    if kind.behaviour == "thread-end":
        return ()
    if kind.behaviour == "pause":
        does = " up: it has not stopped" if lock.name == WORLD_TO_STOP else ": it has requested it"
        return (Marked("lock", (f"{name_of_kind(lock.kind)} {lock.address:#x}",), lock.id), does)
    mode = " for reading" if hold.mode == SHARED and not kind.gathers else ""
    return (*lock_name(facts, lock), mode, *known)


def holds(facts: Facts, hold: Hold) -> str:
    """The verb before `holding`."""
    lock = facts.locks.get(hold.lock)
    if lock is None:
        return "holds"
    if lock.state == RESULT_PENDING:
        return "has to make"
    return "has not arrived at" if kind_of(lock.kind).gathers else kind_of(lock.kind).holds


def waiting(facts: Facts, thread: Thread, why: bool = True, several: bool = False) -> Words:
    """The lock that a thread waits for, after "waits for".

    :param why: whether the evidence follows.
    :param several: whether it is one of several threads, each of which may wait for another call in a queue.
    """
    wait, lock = thread.waits, facts.awaited(thread)
    assert wait is not None
    timed = ", with a timeout" if wait.timed else ""
    if lock is None:
        return (*lock_of_id(facts, wait.lock), timed)
    name: Words = ("the result of a queued call",) if several and lock.is_queued_call else lock_name(facts, lock)
    return (*name, wait_mode(lock.kind, wait.mode), *held_by(facts, lock, why), timed,
            *(known_by(wait.evidence, wait.why) if why else ()))


def waited_for(lock: Lock) -> list[str]:
    """The waiters of a lock, one line per mode."""
    lines = []
    for mode in ("exclusive", "shared"):
        numbers = [waiter.thread for waiter in lock.waiters if waiter.mode == mode]
        if numbers:
            lines.append(f"waited for{wait_mode(lock.kind, mode)} by {number_list(numbers)}")
    return lines or ["no thread waits for it"]


