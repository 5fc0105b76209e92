"""A lock that fork copied while it was locked: the thread of the parent that has the lock there, at the same address.

Fork copies the memory of its process but one thread only, so nobody in the child releases such a lock.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

from gdbext.commands.report_options import ReportOptions
from gdbext.direct.unmoved import read_unmoved
from gdbext.errors import GdbextError
from gdbext.inferior.proc.maps import read_maps
from gdbext.inferior.proc.status import ancestors, is_forked
from gdbext.model import Deadlock, Holder, Lock, Report, Thread
from gdbext.model.reasons import Reason, because, joined, parts

#: How many ancestors are read, and for how long each, in seconds.
_MOST, _SECONDS = 3, 2.0


def with_holders_in_parents(report: Report, options: ReportOptions) -> Report:
    """The report of a process, in which locks without a thread to release them name the thread of a parent with them.

    Nothing is read unless a deadlock of the report consists of such a lock.
    """
    wanted = {lock.id: lock for deadlock in report.deadlocks for edge in deadlock.edges if edge.holder is None
              and (lock := report.lock(edge.lock)) is not None and not lock.shared and not lock.is_event}
    for pid in _forked_from(report.target.pid) if wanted else ():
        try:
            _, parent, _ = read_unmoved(pid, replace(options, may_stop=False), _SECONDS,
                                        tuple([lock.address for lock in wanted.values()]))
        except (GdbextError, OSError):
            continue
        found = {lock_id: why for lock_id, lock in wanted.items() if (why := _holder(parent, lock)) is not None}
        if found:
            return replace(report, locks=tuple([_with_reason(lock, found) for lock in report.locks]),
                           deadlocks=tuple([_explained(each, found) for each in report.deadlocks]))
    return report


def _forked_from(pid: int) -> Iterator[int]:
    """The living ancestors from which a process has its memory: neither has started a program since the fork."""
    for parent in itertools.islice(ancestors(pid), _MOST):
        ours, theirs = read_maps(pid), read_maps(parent)
        # the kernel chooses other addresses for each program that is started
        if not is_forked(pid) or not ours or not theirs or ours[0].start != theirs[0].start:
            return
        yield parent
        pid = parent


def _holder(parent: Report, lock: Lock) -> Reason | None:
    """The thread of a parent that has the lock at the same address; None if none is known to have it."""
    same = parent.lock(lock.id)
    if same is None or len(same.holders) != 1:
        return None
    holder: Holder = same.holders[0]
    thread: Thread | None = parent.thread(holder.thread)
    at = holder.taken_at
    return because("held-in-parent", pid=parent.target.pid, number=holder.thread,
                   name=thread.python_name or thread.name if thread is not None else None,
                   function=at.function if at is not None else None, file=at.file if at is not None else None,
                   line=at.line if at is not None else None)


def _with_reason(lock: Lock, found: dict[str, Reason]) -> Lock:
    if lock.id not in found:
        return lock
    # that its owner is not recorded matters no more
    kept = [why for why in parts(lock.why) if why.code != "records-no-owner"]
    return replace(lock, why=joined([*kept, found[lock.id]]))


def _explained(deadlock: Deadlock, found: dict[str, Reason]) -> Deadlock:
    more = dict.fromkeys(found[edge.lock] for edge in deadlock.edges if edge.lock in found)
    return replace(deadlock, why=joined([*parts(deadlock.why), *more])) if more else deadlock
