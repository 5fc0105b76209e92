"""Verdicts: deadlock, standstill, no deadlock, or cannot be determined."""

from __future__ import annotations

import collections
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from gdbext.model import RECORDED, Deadlock, Lock, Problem, Report
from gdbext.model.kinds import GIL, kind_of
from gdbext.narrate.frames import stack_key
from gdbext.narrate.names import RANGE, Facts, lock_name, lock_of_id, number_list, thread_name
from gdbext.narrate.threads import doing
from gdbext.narrate.words import Foreign, Words, capitalised, listed, plain, plural, reason, unmarked

#: How bad a verdict is.
Tone = Literal["bad", "good", "doubt", "plain"]
#: The problem of a target that has neither a report nor a reason.
NO_REASON = "no reason is known"
#: How many locks a headline names.
_MANY_LOCKS = 4


class NoDeadlock(NamedTuple):
    """The verdict without a deadlock; `doubt` is the reason why none can be ruled out."""

    tone: Tone
    title: str
    doubt: Words
    counts: str


class Link(NamedTuple):
    """A link of a deadlock: the waiters and the holders of a lock; `holders` is empty if none is known."""

    waiters: Sequence[int]
    lock: str
    holders: Sequence[int]


def owner_gone(deadlock: Deadlock) -> bool:
    """Whether the cause of a deadlock is a lock whose owner is not a living thread."""
    # in a standstill, the threads that could act are not known
    return not deadlock.standstill and any(edge.holder is None for edge in deadlock.edges)


def title(deadlock: Deadlock) -> str:
    """The title of a deadlock: how many threads wait for what."""
    count = len(deadlock.threads)
    if deadlock.standstill:
        return f"standstill of {'all ' if count > 1 else ''}{plural(count, 'thread')}"
    if owner_gone(deadlock):
        return f"{plural(count, 'thread')} wait{'s' if count == 1 else ''} for an owner that is gone"
    return "a thread waits for itself" if count == 1 else f"{count:,} threads wait for each other"


def evidence(deadlock: Deadlock) -> Words:
    """The evidence of a deadlock in parentheses."""
    if not deadlock.why or deadlock.evidence == RECORDED:
        return (f"({deadlock.evidence})",)
    return (f"({deadlock.evidence}: ", reason(deadlock.why), ")")


def alike(facts: Facts, deadlock: Deadlock) -> list[list[int]]:
    """The threads of a deadlock, grouped by wait, stack and held locks."""
    edges: dict[int, list[tuple[str, int | None]]] = {}
    for edge in deadlock.edges:
        edges.setdefault(edge.waiter, []).append((edge.lock, edge.holder))
    locks = locks_of(deadlock)
    groups: dict[object, list[int]] = {}
    for number, own in edges.items():
        thread = facts.threads.get(number)
        same = None if thread is None else (
            thread.waits, tuple(hold for hold in thread.holds if hold.lock in locks), stack_key(thread))
        groups.setdefault((tuple(own), same), []).append(number)
    return [sorted(members) for members in groups.values()]


def locks_of(deadlock: Deadlock) -> set[str]:
    """The ids of the locks that a deadlock is about."""
    return {edge.lock for edge in deadlock.edges}


def links(deadlock: Deadlock) -> list[Link]:
    """The links of a deadlock; edges that differ in one thread only are one link."""
    waiters: dict[tuple[str, int | None], dict[int, None]] = {}
    for edge in deadlock.edges:
        waiters.setdefault((edge.lock, edge.holder), {})[edge.waiter] = None
    holders: dict[tuple[str, tuple[int, ...]], list[int | None]] = {}
    for (lock, holder), numbers in waiters.items():
        every = [tuple(sorted(numbers))] if len(numbers) >= RANGE else [(number,) for number in numbers]
        for group in every:
            holders.setdefault((lock, group), []).append(holder)
    made = []
    for (lock, group), having in holders.items():
        known = [holder for holder in having if holder is not None]
        several = [sorted(known)] if len(known) >= RANGE else [[holder] for holder in known]
        made += [Link(group, lock, each) for each in several]
        made += [Link(group, lock, ())] * (None in having)
    return made


def no_holder(deadlock: Deadlock) -> str:
    """The text in place of a missing holder."""
    return "not known" if deadlock.standstill else "nobody"


def link_line(facts: Facts, deadlock: Deadlock, link: Link) -> Words:
    """``thread 1 -> the GIL -> thread 2``."""
    end = number_list(link.holders) if link.holders else no_holder(deadlock)
    return (f"{number_list(link.waiters)} -> ", *unmarked(lock_of_id(facts, link.lock)), f" -> {end}")


def link_sentence(facts: Facts, deadlock: Deadlock, link: Link) -> Words:
    """``thread 1 "main" waits for the GIL -> thread 2 "worker"``."""
    end = _thread_or_numbers(facts, link.holders) if link.holders else (no_holder(deadlock),)
    return (*_waiters(facts, link), *lock_of_id(facts, link.lock), " \u2192 ", *end)


def _waiters(facts: Facts, link: Link) -> Words:
    verb = " waits for " if len(link.waiters) == 1 else " wait for "
    return (*_thread_or_numbers(facts, link.waiters), verb)


def _thread_or_numbers(facts: Facts, numbers: Sequence[int]) -> Words:
    return thread_name(facts, numbers[0]) if len(numbers) == 1 else (number_list(numbers),)


def stuck_behind(deadlock: Deadlock) -> str:
    """The threads that are stuck behind a deadlock; empty if none."""
    return f"Stuck behind it: {number_list(deadlock.stuck_behind)}" if deadlock.stuck_behind else ""


def no_deadlock(facts: Facts) -> NoDeadlock:
    """The verdict without a deadlock, and the number of threads in each state."""
    report = facts.report
    on_locks = {lock.id for lock in report.locks if not kind_of(lock.kind).outside}
    others = [thread for thread in report.threads if thread.waits is None or thread.waits.lock not in on_locks]
    blocked = sum(thread.status == "blocked" for thread in others)
    running = sum(thread.status == "running" for thread in others)
    counts = (f"{plural(len(report.threads), 'thread')}: {len(report.threads) - len(others):,} wait for a lock or "
              f"event, {blocked:,} are in other system calls, {running:,} run.")
    if report.no_verdict:
        words = "Whether there is a deadlock cannot be determined"
        return NoDeadlock("doubt", words, (reason(report.no_verdict),), counts)
    # green would mislead next to a crash or a cycle of tasks
    tone: Tone = "plain" if report.crash is not None or report.task_cycles else "good"
    return NoDeadlock(tone, f"No deadlock {'of threads ' if report.task_cycles else ''}found", (), counts)


def gil_holders(facts: Facts) -> Iterator[Words]:
    """One sentence for each held GIL: its holder, and what that thread does."""
    for lock in facts.report.locks:
        if lock.kind == GIL and lock.holders:
            holder = facts.threads.get(lock.holders[0].thread)
            if holder is not None:
                yield (*capitalised(lock_name(facts, lock)), " is held by ", *thread_name(facts, holder.number),
                       ", which ", *doing(facts, holder), ".")


def notes(report: Report) -> Iterator[Words]:
    """The notes and problems of a report."""
    yield from (("Note: ", reason(note)) for note in report.notes)
    yield from (("Not known: ", *problem_words(problem)) for problem in report.problems)


def problem_words(problem: Problem) -> Words:
    """What is not known, and why."""
    return (Foreign(problem.where, 200), f": {problem.what}: ", reason(problem.why))


# -- on one line -----------------------------------------------------------------------------------------------


def kind_and_name(lock_id: str, kind: str, name: str | None) -> Words:
    """A lock's kind and name, without its address, which differs between runs."""
    row = kind_of(kind)
    if row.title is not None:
        # the main interpreter's is called *the* GIL
        return (row.title if kind != GIL or lock_id == f"{GIL}:0" else f"{row.title} {lock_id}",)
    return (kind, *((" ", Foreign(name)) if name else ()))


def short_lock(facts: Facts, lock_id: str) -> Words:
    """The kind and name of the lock with an id, which the report may lack."""
    lock = facts.locks.get(lock_id)
    return kind_and_name(lock_id, lock.kind, lock.name) if lock is not None else kind_and_name(
        lock_id, lock_id.partition(":")[0], None)


def _orphan(lock: Lock | None) -> Words:
    return (" (", reason(lock.orphan), ")") if lock is not None and lock.orphan else ()


def deadlock_headline(facts: Facts, deadlock: Deadlock) -> Words:
    """A deadlock's number of threads and its locks, the GIL first."""
    names: collections.Counter[Words] = collections.Counter()
    for lock_id in dict.fromkeys(edge.lock for edge in deadlock.edges):
        names[(*short_lock(facts, lock_id), *_orphan(facts.locks.get(lock_id)))] += 1
    parts: list[Words] = [(f"{count:,} x ", *words) if count > 1 else words for words, count in names.items()]
    parts.sort(key=lambda words: not plain(words).startswith(str(kind_of(GIL).title)))
    if len(parts) > _MANY_LOCKS:
        parts[_MANY_LOCKS:] = [(f"and {len(parts) - _MANY_LOCKS:,} more",)]
    what = "standstill" if deadlock.standstill else "deadlock"
    return (f"{what} of {plural(len(deadlock.threads), 'thread')}", *((": ", *listed(parts)) if parts else ()))


def undecided(report: Report) -> Words:
    """The verdict "cannot be determined", and the reason."""
    assert report.no_verdict is not None
    return ("whether there is a deadlock cannot be determined (", reason(report.no_verdict), ")")


def headline(facts: Facts) -> tuple[Tone, Words]:
    """The verdict on one line, and its tone."""
    report = facts.report
    parts: list[Words] = []
    if report.crash is not None:
        fault = report.crash.fault
        parts.append((f"{fault.signal}: ", reason(fault.text, 200)))
    parts += [deadlock_headline(facts, deadlock) for deadlock in report.deadlocks[:3]]
    if len(report.deadlocks) > 3:
        parts.append((plural(len(report.deadlocks) - 3, "more deadlock"),))
    if report.task_cycles:
        parts.append((f"cycle of {plural(len(report.task_cycles[0]), 'task')}",))
    if parts:
        return "bad", listed(parts, "; ")
    if not report.threads:  # a document that contains only some members
        return "plain", ("deadlocks were not searched for",)
    return ("doubt", undecided(report)) if report.no_verdict else ("good", ("no deadlock",))


def not_seen(problem: str) -> tuple[Tone, Words]:
    """The headline of a target without a report."""
    return "doubt", ("could not be inspected: ", Foreign(problem, 300))


def cycle_line(facts: Facts, deadlock: Deadlock) -> Words:
    """The links of a deadlock on one line."""
    found = links(deadlock)
    parts: list[Words] = []
    for link in found[:_MANY_LOCKS]:
        lock = facts.locks.get(link.lock)
        ends = lock is not None and kind_of(lock.kind).ends_thread
        name: Words = ("the end",) if ends else short_lock(facts, link.lock)
        end: Words = ()
        if link.holders:
            end = (" of ", *_thread_or_numbers(facts, link.holders))
        elif lock is not None:
            end = (", ", reason(lock.orphan) if lock.orphan else lock.state)
        parts.append((*_waiters(facts, link), *name, *end))
    if len(found) > _MANY_LOCKS:
        parts.append((f"and {len(found) - _MANY_LOCKS:,} more",))
    return listed(parts, "; ")
