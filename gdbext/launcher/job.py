"""The ranks of a job: finds them, takes a short look at nearly one moment, and makes the reports that matter."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from gdbext.errors import GdbextError
from gdbext.glance import Glances
from gdbext.inferior.proc.last_run import seconds_since_run
from gdbext.inferior.proc.process import Proc
from gdbext.inferior.proc.ranks import find_ranks
from gdbext.inferior.proc.status import process_tree, state_of
from gdbext.inferior.proc.stopped import read_stopped
from gdbext.inferior.proc.threads import read_tasks
from gdbext.inferior.signals import signal_name
from gdbext.jobs.job import Job, Member, State, find_unfinished, judge, with_absent
from gdbext.launcher.snapshots.options import Options, Target
from gdbext.launcher.snapshots.pool import processors, run_all
from gdbext.launcher.snapshots.snapshot import Snapshot, take_snapshot
from gdbext.launcher.status import Unreadable
from gdbext.model import INFERRED, RECORDED, Evidence, Group, Identity, Report, Thread
from gdbext.model.kinds import kind_of
from gdbext.record import record
from gdbext.render.escape import Safe
from gdbext.render.shown import Shown
from gdbext.schema.ranks import SCHEMA, read_members
from gdbext.schema.read import read_document
from gdbext.verdict.judge import verdict_of

#: Most ranks of which a full report is made.
_MOST_REPORTS = 8
#: How often ranks are read until their views of an operation agree.
_LOOKS = 3
#: How long after the first look ranks that poll are read again, in seconds.
_AGAIN = 1.0


@record
class Look:
    """The ranks of a job as they were seen, and the verdict.

    `shown` has the full reports that were made or failed, by rank, and `texts` what they look like. All ranks were read
    within `within` seconds; None if that is not known. `stripped` are libraries without the symbols by which operations
    are found.
    """

    members: Mapping[int, Member]
    job: Job
    shown: Mapping[int, Shown]
    texts: Mapping[int, Safe]
    within: float | None
    time: float
    evidence: Evidence
    stripped: tuple[str, ...] = ()

    @property
    def reports(self) -> dict[int, Report]:
        """The reports that were made."""
        return {rank: each.report for rank, each in self.shown.items() if each.report is not None}

    @property
    def hosts(self) -> int:
        """How many machines the ranks run on."""
        return len({member.host for member in self.members.values()})


def look(pids: Sequence[int], options: Options) -> Look | None:
    """Look at the ranks among some processes and their descendants; None if there are none.

    :param pids: launchers or ranks.
    """
    options, identities = replace(options, text_only=False), find_ranks(pids)
    if not identities:
        return None
    if identities.keys() >= {*pids}:
        # without a launcher, ranks that are not named may run
        identities = {pid: replace(identity, local_size=None) for pid, identity in identities.items()}
    glances, begin = Glances(), time.monotonic()
    members: dict[int, Member] = {}
    for pid, identity in identities.items():
        state, cause = _state(pid)
        try:
            groups = glances.groups(pid)
        except GdbextError:  # it has ended
            groups, state = (), "ended"
        member = Member(identity, pid, socket.gethostname(), groups, state, cause)
        members.setdefault(member.rank, member)
    size = max([member.identity.size or 0 for member in members.values()] + [max(members) + 1])
    _add_zombie(members, size, pids)
    _look_again(members, size, glances)
    within, now = time.monotonic() - begin, time.time()
    return replace(_judged(members, size, within, now, options), stripped=tuple(sorted(glances.stripped)))


def _add_zombie(members: dict[int, Member], size: int, pids: Sequence[int]) -> None:
    """Add the rank that has ended and that nobody has waited for, if it is the only one: its variables are gone."""
    missing = [rank for rank, member in with_absent(members, size).items() if member.state == "missing"]
    ended = [child for root in pids for pid, _ in process_tree(root) for child in Proc(pid).ended_children()]
    if len(missing) == len(ended) == 1:
        rank, child = missing[0], ended[0]
        members[rank] = Member(Identity(rank, size), child.pid, socket.gethostname(), (), "ended",
                               signal_name(child.signal) if child.signal else None)


def _look_again(members: dict[int, Member], size: int, glances: Glances) -> None:
    """Look again at the ranks that seem to owe an operation: others may have called it after these were read."""
    for _ in range(_LOOKS):
        owing = {each.rank for unfinished in find_unfinished(members, size, time.time()) for each in unfinished.owing
                 if each.debt == "not-called"}
        before = {rank: members[rank].groups for rank in owing if rank in members}
        for rank in owing:
            pid = members[rank].pid if rank in members else None
            if pid is not None:
                members[rank] = replace(members[rank], groups=glances.groups(pid))
        if all(members[rank].groups == groups for rank, groups in before.items()):
            return


def _state(pid: int) -> tuple[State, str | None]:
    """Whether a process is alive, and the signal that has stopped it."""
    stopped = read_stopped(pid)
    if stopped is not None:
        return "stopped", stopped.name if stopped.by == "signal" else None
    return ("alive" if state_of(pid) not in ("Z", "X", None) else "ended"), None


def _judged(members: dict[int, Member], size: int, within: float, now: float, options: Options) -> Look:
    """Make the full reports that the verdict needs, and judge."""
    snapshots: dict[int, Snapshot] = {}
    recorded = any(member.groups for member in members.values())
    job = judge(members, size, now)
    # chains of ranks lead from one rank to the next: a report may show that more of them matter
    for _ in range(_MOST_REPORTS):
        wanted = [rank for rank in (_of_interest(job, members) if recorded else sorted(members))
                  if rank not in snapshots and members[rank].pid is not None and members[rank].state != "ended"]
        wanted = wanted[:max((_MOST_REPORTS if recorded else len(members)) - len(snapshots), 0)]
        if not wanted:
            break
        rested = {rank: _Rested(members[rank].pid or 0) for rank in wanted}
        run_all(wanted, processors(), lambda rank: take_snapshot(Target(pid=members[rank].pid), options),
                snapshots.__setitem__)
        for rank in wanted:
            report = snapshots[rank].report
            if report is not None:
                _learn(members, rank, report, rested[rank])
        if not recorded:
            _confirm_polls(members, snapshots, options)
            now = time.time()
            members.update(_from_stacks(members, snapshots, size))
        job = judge(members, size, now)
    return _look_of(members, job, snapshots, within, now, RECORDED if recorded else INFERRED)


def _confirm_polls(members: dict[int, Member], snapshots: dict[int, Snapshot], options: Options) -> None:
    """Look once more at ranks that poll for others: only those that are still in the same call wait in it."""
    polling = {rank: member.awaited for rank, member in members.items()
               if member.awaited is not None and member.awaited.begun is None}
    if not polling:
        return
    begun = time.time()
    time.sleep(_AGAIN)
    again: dict[int, Snapshot] = {}
    run_all(list(polling), processors(), lambda rank: take_snapshot(Target(pid=members[rank].pid), options),
            again.__setitem__)
    for rank, seen in again.items():
        before, now = polling[rank], seen.report.rank if seen.report is not None else None
        awaited = replace(before, begun=begun) if now is not None and now.awaited == before else None
        members[rank] = replace(members[rank], awaited=awaited)
        snapshots[rank] = seen


def _look_of(members: Mapping[int, Member], job: Job, snapshots: Mapping[int, Snapshot], within: float | None,
             now: float, evidence: Evidence) -> Look:
    return Look(members, job, {rank: seen.for_page() for rank, seen in snapshots.items()},
                {rank: seen.text for rank, seen in snapshots.items() if seen.text}, within, now, evidence)


def look_at_reports(targets: Sequence[Target], documents: Sequence[object], options: Options) -> Look:
    """Judge a job by reports that do not change any more: cores, and documents of this or other machines.

    :param documents: of schema ``gdbext/1`` or ``gdbext-ranks/1``.
    :raises GdbextError: a document follows neither schema, or no rank is known.
    """
    members: dict[int, Member] = {}
    reports: dict[int, Report] = {}
    size, now = 0, 0.0
    seen: list[Snapshot] = []
    run_all(targets, processors(), lambda target: take_snapshot(target, options), lambda _, each: seen.append(each))
    found: list[tuple[Report, Snapshot | None]] = [
        (each.report, each) for each in seen if each.report is not None]
    for document in documents:
        if isinstance(document, dict) and document.get("schema") == SCHEMA:
            known, count, moment, _ = read_members(document)
            members.update(known)
            size, now = max(size, count), max(now, moment)
            reports.update({int(rank): read_document(each) for rank, each in document["reports"].items()})
        else:
            found.append((read_document(document), None))
    return _joined(found, members, reports, size, now)


def look_at_known(reports: Sequence[Report]) -> Look | None:
    """Judge a job by reports that do not change any more; None if they are not about two or more ranks of one job."""
    known = [(rank.identity.run, rank.identity.rank) for report in reports
             if (rank := report.rank) is not None and rank.identity.rank is not None]
    if len(known) < 2 or len(known) != len({*known}) or len({run for run, _ in known}) > 1:
        return None
    return _joined([(report, None) for report in reports], {}, {}, 0, 0.0)


def _joined(found: Iterable[tuple[Report, Snapshot | None]], members: dict[int, Member], reports: dict[int, Report],
            size: int, now: float) -> Look:
    """Judge a job by reports.

    :param members: the ranks that are known besides.
    """
    snapshots: dict[int, Snapshot] = {}
    for report, snapshot in found:
        rank = report.rank
        if rank is None or rank.identity.rank is None:
            continue
        number = rank.identity.rank
        # whether its neighbours have ended is not known: they may only not be among these reports
        identity = replace(rank.identity, local_size=None)
        members[number] = Member(identity, report.target.pid, report.target.host, rank.groups)
        _learn(members, number, report)
        reports[number] = report
        now = max(now, report.target.time or 0.0)
        if snapshot is not None:
            snapshots[number] = snapshot
    if not members:
        raise Unreadable("none of these is a report on a rank of a job", "a report on a rank has the member `rank`")
    size = max([size, max(members) + 1, *(member.identity.size or 0 for member in members.values())])
    recorded = any(member.groups for member in members.values())
    if not recorded:
        members.update(_from_stacks(members, members, size))
    made = _look_of(members, judge(members, size, now), snapshots, None, now, RECORDED if recorded else INFERRED)
    return replace(made, shown={**{rank: Shown("", report) for rank, report in reports.items()}, **made.shown})


def _of_interest(job: Job, members: Mapping[int, Member]) -> list[int]:
    """The ranks whose stacks explain the verdict: those that owe an operation, and one of those that wait in each."""
    owing = [each.rank for unfinished in job.unfinished for each in unfinished.owing]
    waiting = [unfinished.waiting[0] for unfinished in job.unfinished if unfinished.waiting]
    found = [*job.causes, *job.circle, *owing, *waiting]
    return [rank for rank in dict.fromkeys(found or sorted(members)[:1]) if rank in members]


class _Rested:
    """How long the threads of a process had slept before a report, which may stop them for a moment."""

    def __init__(self, pid: int) -> None:
        self._pid, self._begin = pid, time.time()
        self._calls = _calls(pid)
        self._ran = seconds_since_run(pid, self._calls)

    def since(self, threads: Iterable[Thread]) -> dict[int, float]:
        """When threads have begun to sleep, in seconds since 1970, by number: those that are still in the same call."""
        now = _calls(self._pid)
        return {thread.number: self._begin - self._ran[thread.lwp] for thread in threads
                if thread.lwp in self._ran and now.get(thread.lwp) == self._calls[thread.lwp]}


def _calls(pid: int) -> dict[int, tuple[int, int]]:
    """Where each thread of a process sleeps that is in a system call: its stack pointer and program counter, by TID."""
    try:
        return {tid: (task.call.stack_pointer, task.call.program_counter) for tid, task in read_tasks(pid).items()
                if task.call is not None}
    except OSError:  # it has ended, or may not be read
        return {}


def _learn(members: dict[int, Member], number: int, report: Report, rested: _Rested | None = None) -> None:
    """Note what the report on a rank says of it, and the members of the groups that it knows."""
    rank = report.rank
    awaited = rank.awaited if rank is not None else None
    if awaited is not None and awaited.begun is None:
        awaited = replace(awaited, begun=_waiting_since(report, rested))
    groups = members[number].groups or (rank.groups if rank is not None else ())
    verdict = verdict_of(report)
    members[number] = replace(members[number], outcome=verdict.outcome, awaited=awaited, groups=groups,
                              works=verdict.kind == "computing")
    known = {group.name: group.members for group in (rank.groups if rank is not None else ())}
    for other, member in members.items():
        members[other] = replace(member, groups=tuple(
            [replace(group, members=group.members or known.get(group.name)) for group in member.groups]))


def _waiting_since(report: Report, rested: _Rested | None) -> float | None:
    """Since when a thread has waited for other ranks, in seconds since 1970; None if not known."""
    of_ranks = {lock.id for lock in report.locks if kind_of(lock.kind).of_ranks}
    waiting = [thread for thread in report.threads if thread.waits is not None and thread.waits.lock in of_ranks]
    asleep = rested.since(waiting) if rested is not None and report.target.paused else {}
    if report.target.time is not None:
        begun = {thread.number: report.target.time - thread.since for thread in waiting if thread.since is not None}
        asleep = {**begun, **asleep}
    return min(asleep.values(), default=None)


def _from_stacks(members: Mapping[int, Member], ranks: Iterable[int], size: int) -> dict[int, Member]:
    """The members in one group, with the operation that their stacks show, for libraries that record none."""
    found = {}
    for rank in ranks:
        awaited = members[rank].awaited
        pending = (awaited,) if awaited is not None and not awaited.is_pair else ()
        found[rank] = replace(members[rank], groups=(
            Group("", None, tuple(range(size)), pending, None, INFERRED),))
    return found
