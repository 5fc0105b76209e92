"""The activity of threads, their order, and their groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gdbext.model import Thread
from gdbext.model.kinds import kind_of, name_of_kind
from gdbext.model.reasons import Reason
from gdbext.narrate.locks import holding, holds, waiting
from gdbext.narrate.names import Facts, heading
from gdbext.narrate.words import Foreign, Word, Words, plural, reason

#: How a thread waits for a descriptor, by the lock's state.
_ON_DESCRIPTOR = {
    "waiting to read": "waits to read from", "waiting to write": "waits to write to",
    "waiting for events": "waits for events of", "waiting for a connection": "waits for a connection to",
    "connecting": "connects",
    "waiting for the disk": "waits for the disk to write", "waiting to copy": "waits to copy from",
    "waiting for completions": "waits for completions in", "waiting in ioctl": "waits in ioctl on",
    "waiting for an answer": "waits for an answer of",
}
#: The label of each state of a thread, in the order in which they explain why a program hangs.
STATES = {
    "crashed": "crashed", "deadlocked": "deadlocked", "holder": "blocks others", "stuck": "stuck behind a deadlock",
    "suspect": "suspect", "waiting": "waits", "running": "runs", "blocked": "in a system call",
    "unsure": "blocked or running", "unread": "not readable", "event": "waits for an event",
}
#: What follows a thread's name where the verdict has said what it does.
SAID_ABOVE = "(see above)"


class Group(NamedTuple):
    """Threads that are shown together, by ascending number; the first represents all of them."""

    members: Sequence[Thread]
    state: str


def doing(facts: Facts, thread: Thread) -> Words:
    """What a thread does: "runs", "waits for ..."."""
    wait, lock = thread.waits, facts.awaited(thread)
    if wait is not None and lock is not None and lock.is_outside:
        kind = kind_of(lock.kind)
        does = ("waits for the file lock of" if kind.behaviour == "file-lock" else
                "waits for" if kind.of_ranks else
                _ON_DESCRIPTOR.get(lock.state, f"is in {thread.syscall} on"))
        why: Words = ("; ", reason(lock.why)) if lock.why else ()
        return (f"{does} ", Foreign(lock.name or lock.id, 1000), ", with a timeout" if wait.timed else "", *why)
    if wait is not None:
        return ("waits for ", *waiting(facts, thread))
    if thread.blocked_on is not None:
        return (reason(thread.blocked_on),)
    if thread.status == "blocked":
        return (f"is in the system call {thread.syscall}" if thread.syscall else "is in a system call",)
    runs = "ran until the process was stopped" if facts.report.target.stopped is not None else "runs"
    return ({"running": runs, "unknown": "cannot be read"}.get(thread.status, thread.status),)


def doing_together(facts: Facts, members: Sequence[Thread]) -> Words:
    """What the threads of a group do."""
    waits = {thread.waits.lock for thread in members if thread.waits is not None}
    if len(waits) < 2:
        return ("each ", *doing(facts, members[0]))
    locks = [facts.locks[lock] for lock in waits if lock in facts.locks]
    kinds = sorted({name_of_kind(lock.kind, lock.state, lock.shared) for lock in locks})
    return (f"wait for {len(waits):,} different locks ({', '.join(kinds)})",)


def introduction(facts: Facts, members: Sequence[Thread]) -> Words:
    """The heading of a group and what its threads do, on one line."""
    if len(members) == 1:
        return (*heading(members), " ", *doing(facts, members[0]))
    return (*heading(members), ": ", *doing_together(facts, members))


def holdings(facts: Facts, thread: Thread, locks: set[str] | None = None) -> Iterator[Words]:
    """The locks that a thread holds, and where it acquired them; if `locks` is given, only those."""
    for hold in thread.holds:
        words = holding(facts, hold) if locks is None or hold.lock in locks else ()
        if words:
            taken = hold.taken_at
            place: tuple[Word, ...] = ()
            if taken is not None:
                place = (", taken at ", Foreign(taken.file, 300), f":{taken.line if taken.line is not None else '?'}",
                         " in ", Foreign(taken.function, 120))
            yield (f"{holds(facts, hold)} ", *words, *place)


def suspended_sections(thread: Thread) -> Iterator[Words]:
    """The critical sections that a thread has suspended."""
    for section in thread.critical_sections or ():
        if not section.active and section.mutex is not None:
            what: Words = ("a mutex",)
            if section.object is not None:
                what = (Foreign(str(section.type)), f" object at {section.object:#x}")
            yield ("has suspended its critical section of ", *what)


def unmerged(why: Reason | None) -> Words:
    """Why Python and native frames are not interleaved; empty without a reason."""
    return ("Python frames first, then native ones: ", reason(why)) if why else ()


def states(facts: Facts) -> dict[int, str]:
    """The state of each thread by number, in the order of `STATES`; deadlocked threads in the order of deadlocks."""
    report, crash = facts.report, facts.report.crash
    dead = dict.fromkeys(number for deadlock in report.deadlocks for number in deadlock.threads)
    numbers = {
        "crashed": {crash.thread} if crash is not None else set(), "deadlocked": set(dead),
        "suspect": {suspect.thread for suspect in crash.suspects} if crash is not None else set(),
        "holder": {holder.thread for lock in report.locks if lock.waiters for holder in lock.holders},
        "stuck": {number for deadlock in report.deadlocks for number in deadlock.stuck_behind},
    }

    def state(thread: Thread) -> str:
        found = next((name for name, members in numbers.items() if thread.number in members), None)
        lock = facts.awaited(thread)
        if found is not None:
            return found
        if lock is not None and lock.is_event:
            return "event"
        if lock is not None and not lock.is_outside:
            return "waiting"
        if thread.status == "unknown" and thread.blocked_on is not None:
            return "unsure"
        return {"blocked": "blocked", "running": "running"}.get(thread.status, "unread")

    made = {thread.number: state(thread) for thread in report.threads}
    order, place = list(STATES), {number: index for index, number in enumerate(dead)}
    return dict(sorted(made.items(), key=lambda item: (order.index(item[1]), place.get(item[0], 0), item[0])))


def groups(facts: Facts, shown: Sequence[int] | None = None, *, each: bool = False, stacks: bool = True,
           by_state: bool = False) -> list[Group]:
    """Group threads with the same stack.

    :param shown: numbers of threads, in order; None: all, in the order of `states`.
    :param each: no groups: every thread alone.
    :param stacks: whether stacks are shown; if not, threads that do the same form a group.
    :param by_state: whether a group contains only threads in the same state.
    """
    found = states(facts)
    made: dict[object, list[Thread]] = {}
    for number in found if shown is None else shown:
        thread, state = facts.threads[number], found[number]
        # the locks of a thread are shown with it
        alone = each or thread.holds or state in ("crashed", "suspect") or (stacks and not thread.stack)
        alike = (facts.stack_number(thread), thread.variables) if stacks else doing(facts, thread)
        key = (number,) if alone else (alike, thread.status, state if by_state else None)
        made.setdefault(key, []).append(thread)
    return [Group(sorted(members, key=lambda thread: thread.number), found[members[0].number])
            for members in made.values()]


def not_listed(left: Sequence[Group]) -> str:
    """What follows a list of threads that was cut; without any thread left, its last stack was cut."""
    count = sum(len(group.members) for group in left)
    return f"... {plural(count, 'more thread') if count else 'more frames'}: --each lists all"
