"""Who or what can end the wait of a thread. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from gdbext.model import DERIVED, Ender, Lock, Wait
from gdbext.model.kinds import FUTEX, kind_of
from gdbext.model.reasons import Reason, ends_here, find_reasons, parts

#: Waits for child processes: their ends, or what one of them does.
FOR_CHILDREN = frozenset((
    "waits-for-any-child", "waits-for-child", "waits-for-child-number", "waits-for-children", "waits-for-execve",
    "waits-for-group", "waits-for-own-group", "waits-for-pidfd"))
#: Waits that end after a time.
FOR_A_TIME = frozenset(("in-timed-wait", "sleeps", "sleeps-for", "sleeps-more", "sleeps-until", "with-timeout"))


def find_enders(waits: Wait | None, lock: Lock | None, blocked_on: Reason | None,
                seconds: float | None) -> tuple[Ender, ...]:
    """Who or what can end a wait; empty if that is not known.

    :param lock: the lock that is waited for, with its holders.
    :param blocked_on: what is waited for besides.
    :param seconds: how long the wait can still last, None if that is not known.
    """
    timed = waits.timed if waits is not None else blocked_on is not None and blocked_on.code in FOR_A_TIME
    found = [Ender("time", seconds=seconds)] if timed else []
    if waits is not None and lock is not None:
        found += _of_outside(lock) if lock.is_outside else _of_lock(waits, lock)
    elif blocked_on is not None and not found:
        children = _processes(blocked_on)
        found += children or [Ender("outside", why=blocked_on)]
    return tuple(found)


def _of_lock(waits: Wait, lock: Lock) -> Sequence[Ender]:
    if lock.orphan is not None:
        return [Ender("nobody", evidence=lock.orphan_evidence, why=lock.orphan)]
    if lock.holders:
        return [Ender("thread", thread=holder.thread, evidence=holder.evidence) for holder in lock.holders]
    if lock.foreign_owner is not None:
        return [Ender("process", evidence=waits.evidence, why=lock.why)]
    kind = kind_of(lock.kind)
    if lock.shared:
        return [Ender("this-process", evidence=DERIVED), Ender("outside", evidence=DERIVED)]
    # any process that shares the memory may wake a futex word
    return [Ender("this-process", evidence=DERIVED)] if kind.own_threads_only and lock.kind != FUTEX else []


def only_this_process_ends(lock: Lock) -> bool:
    """Whether a wait for descriptors ends only if a thread of this process acts: it alone has all other ends."""
    found = parts(lock.why)
    return bool(found) and all(ends_here(why) for why in found)


def _of_outside(lock: Lock) -> Sequence[Ender]:
    """Who can end a wait for a descriptor or a file lock."""
    found: list[Ender] = []
    every = parts(lock.why)
    only = sum(why.code == "of-descriptor" for why in every) == 1
    for why in every:
        if ends_here(why):
            found.append(Ender("this-process", evidence=DERIVED, why=why))
        elif why.code == "other-end-not-open":
            # a read would return, and a write fails: the kernel is about to wake the thread
            found.append(Ender("time", seconds=0.0, evidence=DERIVED, why=why))
        elif why.code in ("accepts-more", "of-other-descriptors"):
            found.append(Ender("outside", why=why))
        elif why.code != "watches" and (only or why.code != "of-descriptor"):
            found += _processes(why)
    return found or [Ender("outside", why=lock.why)]


def _processes(why: Reason) -> list[Ender]:
    """The processes that a reason names."""
    pids = dict.fromkeys(value for process in find_reasons(why, "process")
                         for name, value in process.arguments if name == "pid" and isinstance(value, int))
    here = [Ender("this-process", why=why)] if next(find_reasons(why, "this-process"), None) is not None else []
    return [*(Ender("process", process=pid, why=why) for pid in pids), *here]
