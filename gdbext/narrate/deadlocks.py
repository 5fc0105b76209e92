"""Deadlocks in words: their titles, their links from waiter to holder, and each on one line."""

from __future__ import annotations

import collections
from collections.abc import Sequence
from typing import NamedTuple

from gdbext.model import (
    Deadlock,
    Lock,
)
from gdbext.model.kinds import GIL, kind_of
from gdbext.narrate.names import MANY_LOCKS, RANGE, Facts, lock_of_id, number_list, short_lock, thread_name
from gdbext.narrate.words import Words, listed, plain, plural, reason, unmarked


class Link(NamedTuple):
    """A link of a deadlock: the waiters and the holders of a lock; `holders` is empty if none is known."""

    waiters: Sequence[int]
    lock: str
    holders: Sequence[int]


def title(deadlock: Deadlock) -> str:
    """The title of a deadlock: how many threads wait for what."""
    count = len(deadlock.threads)
    if deadlock.standstill:
        return f"standstill of {'all ' if count > 1 else ''}{plural(count, 'thread')}"
    if deadlock.owner_gone:
        what = "a result that nobody makes" if deadlock.no_result else "an owner that is gone"
        return f"{plural(count, 'thread')} wait{'s' if count == 1 else ''} for {what}"
    return "a thread waits for itself" if count == 1 else f"{count:,} threads wait for each other"


def alike(facts: Facts, deadlock: Deadlock) -> list[list[int]]:
    """The threads of a deadlock, grouped by wait, stack and held locks."""
    edges: dict[int, list[tuple[str, int | None]]] = {}
    for edge in deadlock.edges:
        # of calls in one queue it does not matter which is whose
        edges.setdefault(edge.waiter, []).append((edge.lock if not deadlock.of_pool else "", edge.holder))
    locks = locks_of(deadlock)
    groups: dict[object, list[int]] = {}
    for number, own in edges.items():
        thread = facts.threads.get(number)
        same = None if thread is None else (
            thread.waits if not deadlock.of_pool else None,
            tuple(hold for hold in thread.holds if hold.lock in locks), facts.stack_number(thread))
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


def cycle_line(facts: Facts, deadlock: Deadlock) -> Words:
    """The links of a deadlock on one line."""
    found = links(deadlock)
    parts: list[Words] = []
    for link in found[:MANY_LOCKS]:
        lock = facts.locks.get(link.lock)
        ends = lock is not None and kind_of(lock.kind).behaviour == "thread-end"
        name: Words = ("the end",) if ends else short_lock(facts, link.lock)
        end: Words = ()
        if link.holders:
            end = (" of ", *_thread_or_numbers(facts, link.holders))
        elif lock is not None:
            end = (", ", reason(lock.orphan) if lock.orphan else lock.state)
        parts.append((*_waiters(facts, link), *name, *end))
    if len(found) > MANY_LOCKS:
        parts.append((f"and {len(found) - MANY_LOCKS:,} more",))
    return listed(parts, "; ")


def _orphan(lock: Lock | None) -> Words:
    return (" (", reason(lock.orphan), ")") if lock is not None and lock.orphan else ()


def deadlock_headline(facts: Facts, deadlock: Deadlock) -> Words:
    """A deadlock's number of threads and its locks, the GIL first."""
    names: collections.Counter[Words] = collections.Counter()
    for lock_id in dict.fromkeys(edge.lock for edge in deadlock.edges):
        names[(*short_lock(facts, lock_id), *_orphan(facts.locks.get(lock_id)))] += 1
    parts: list[Words] = [(f"{count:,} x ", *words) if count > 1 else words for words, count in names.items()]
    parts.sort(key=lambda words: not plain(words).startswith(str(kind_of(GIL).title)))
    if len(parts) > MANY_LOCKS:
        parts[MANY_LOCKS:] = [(f"and {len(parts) - MANY_LOCKS:,} more",)]
    what = ("standstill" if deadlock.standstill else "lost result" if deadlock.no_result
            else "exhausted pool" if deadlock.of_pool else "deadlock")
    return (f"{what} of {plural(len(deadlock.threads), 'thread')}", *((": ", *listed(parts)) if parts else ()))
