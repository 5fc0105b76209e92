"""The wait-for graph as drawn: its threads, locks, labels and arrows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gdbext.model import RESULT_PENDING
from gdbext.model.kinds import kind_of, name_of_kind
from gdbext.narrate.frames import own_place
from gdbext.narrate.locks import held_at_arrow, wait_mode
from gdbext.narrate.names import RANGE, Facts, lock_name, names_of, number_list, program_name
from gdbext.narrate.words import Foreign, Words, reason

#: The title of a drawing, and its description for screen readers.
TITLE = "Wait-for graph"
DESCRIPTION = ("Boxes are threads and rounded boxes are locks. An arrow leads from a thread to the lock that it waits "
               "for, and from a lock to its holder. Deadlocks are red.")
#: The kinds of arrows and boxes that need an explanation.
LEGEND = {"bad": "red: part of a deadlock", "derived": "short dashes: derived from the interpreter's state",
          "inferred": "long dashes: inferred", "candidate": "dots: a candidate"}


class Arrow(NamedTuple):
    """A connection between a thread and a lock.

    `kind` is ``waits`` (from the thread to the lock), the evidence of a holder or ``candidate`` (from the lock to the
    thread).
    """

    lock: str
    words: str
    kind: str
    #: whether it is part of a deadlock
    bad: bool


class WaitForGraph(NamedTuple):
    """The content of a drawing, in order: locks, with whether each is deadlocked; groups of threads with arrows."""

    locks: Mapping[str, bool]
    threads: Sequence[tuple[Sequence[int], Sequence[Arrow]]]


def wait_for_graph(facts: Facts, *, everything: bool = False, together: bool = True) -> WaitForGraph:
    """The threads and locks of deadlocks, and other locks with waiters and holders.

    :param everything: whether all other locks are included, too.
    :param together: whether many threads with the same arrows form one box.
    """
    report = facts.report
    edges = [edge for deadlock in report.deadlocks for edge in deadlock.edges]
    red = {(edge.waiter, edge.lock) for edge in edges}
    red_holds = {(edge.lock, edge.holder) for edge in edges}
    shown = dict.fromkeys(edge.lock for edge in edges)
    shown.update(dict.fromkeys(lock.id for lock in report.locks if everything or (
        lock.waiters and (lock.holders or lock.candidates or lock.orphan))))
    arrows: dict[int, list[Arrow]] = {}
    for lock_id in shown:
        lock = facts.locks.get(lock_id)
        if lock is None:
            continue
        for waiter in lock.waiters:
            words = f"waits{wait_mode(lock.kind, waiter.mode)}"
            arrows.setdefault(waiter.thread, []).append(
                Arrow(lock_id, words, "waits", (waiter.thread, lock_id) in red))
        for holder in lock.holders:
            arrows.setdefault(holder.thread, []).append(
                Arrow(lock_id, held_at_arrow(lock), holder.evidence, (lock_id, holder.thread) in red_holds))
        for number in lock.candidates:
            arrows.setdefault(number, []).append(Arrow(lock_id, "maybe held by", "candidate", False))
    bad = {arrow.lock for each in arrows.values() for arrow in each if arrow.bad}
    # deadlocked threads in the order of the deadlock, then others
    place = {edge.waiter: index for index, edge in enumerate(edges)}
    groups = _with_same_arrows(arrows) if together else [[number] for number in arrows]
    groups.sort(key=lambda group: (place.get(group[0], len(place)), group[0]))
    return WaitForGraph({lock_id: lock_id in bad for lock_id in shown},
                        [(members, arrows[members[0]]) for members in groups])


def _with_same_arrows(arrows: Mapping[int, Sequence[Arrow]]) -> list[list[int]]:
    """Group threads with the same arrows if there are at least `RANGE` of them; others stay alone."""
    alike: dict[object, list[int]] = {}
    for number, found in arrows.items():
        alike.setdefault(tuple(sorted(found)), []).append(number)
    few = [[number] for members in alike.values() if len(members) < RANGE for number in members]
    return few + [members for members in alike.values() if len(members) >= RANGE]


def thread_lines(facts: Facts, members: Sequence[int]) -> list[Words]:
    """The lines of a box of threads: numbers, names, and their common place."""
    threads = facts.known(members)
    places = {own_place(thread) for thread in threads}
    place = places.pop() if len(places) == 1 else None
    title = number_list(sorted(members))
    lines: list[Words] = [(title if len(members) == 1 else f"{len(members):,} {title}",)]
    names = names_of(threads)
    return [*lines, *([names] if names else []), *([(Foreign(place, 200),)] if place else [])]


def lock_lines(facts: Facts, lock_id: str) -> list[Words]:
    """The lines of a box of a lock: its name and state."""
    lock = facts.locks.get(lock_id)
    if lock is None:
        return [(Foreign(lock_id),)]
    if kind_of(lock.kind).title is not None:
        return [lock_name(facts, lock)]
    lines: list[Words] = [(f"{name_of_kind(lock.kind, lock.state, lock.shared)} {lock.address:#x}",)]
    if lock.name:
        lines.append(program_name(lock))
    if lock.orphan and lock.state == RESULT_PENDING:
        return [*lines, (reason(lock.orphan),)]
    return [*lines, ("owner gone: ", reason(lock.orphan)) if lock.orphan else (lock.state,)]
