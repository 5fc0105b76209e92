"""What a job of several ranks waits for: which operation does not end, and which ranks owe it. Pure.

An operation of a process group ends when all its members have called it. So members that have finished the operation
before, and have not called this one, owe it; others have called another one in its place. Such ranks may wait for
ranks themselves: the ranks at the end of these chains are the cause, or a circle is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from gdbext.model import INFERRED, RECORDED, Evidence, Group, Identity, Operation
from gdbext.model.verdict import Outcome
from gdbext.record import record
from gdbext.verdict.graph import find_cycles

#: How long a healthy job may wait for a rank that is at work, in seconds.
PATIENCE = 10.0
#: How long any wait of a healthy job may be, in seconds.
_MOMENT = 1.0
#: Operations whose tensors have one size in all ranks.
_SAME_SIZE = frozenset(("all_reduce", "broadcast", "reduce"))

#: ``alive``: it runs or sleeps; ``stopped`` by a signal or a tracer; ``ended``: a zombie; ``missing``: it should be on
#: a machine that was read, and there is no process; ``elsewhere``: it was not read.
State = Literal["alive", "stopped", "ended", "missing", "elsewhere"]
#: Why a rank owes an operation; ``no-message``: it has not answered a send or receive; ``stopped``: it has called the
#: operation, and was stopped.
Debt = Literal["not-called", "other-operation", "other-size", "no-message", "stopped", "ended", "missing", "elsewhere"]
#: ``hung``: it does not end by itself. ``waits`` for a rank that may still act. ``working``. ``unknown``.
JobKind = Literal["hung", "waits", "working", "unknown"]


@record
class Member:
    """A rank as it was seen.

    `outcome` is that of its own report, None if that was not made. `awaited` is the operation that its report says a
    thread waits for; it `works` if a thread of it runs. `signal` is the name of the one that has ended or stopped it.
    """

    identity: Identity
    pid: int | None = None
    host: str | None = None
    groups: tuple[Group, ...] = ()
    state: State = "alive"
    signal: str | None = None
    outcome: Outcome | None = None
    awaited: Operation | None = None
    works: bool = False

    @property
    def awaits(self) -> bool | None:
        """Whether it waits for other ranks; None if it has no report."""
        return None if self.outcome is None else self.awaited is not None

    @property
    def rank(self) -> int:
        """Its number in the job."""
        assert self.identity.rank is not None
        return self.identity.rank


@record
class Owing:
    """A rank that has to act.

    `last` is the newest operation of the group that it has finished, `other` what it called
    in place of the awaited one.
    """

    rank: int
    debt: Debt
    last: Operation | None = None
    other: Operation | None = None


@record
class Unfinished:
    """An operation without an end: the ranks that have called it, and those that owe it.

    `group` is what people call the group; None for a message between two ranks. `seconds` is how long the first of the
    ranks has waited; None if not known. Without `complete` not all members of the group are known.
    """

    group: str | None
    operation: Operation
    waiting: tuple[int, ...]
    owing: tuple[Owing, ...]
    seconds: float | None
    complete: bool = True
    evidence: Evidence = RECORDED

    @property
    def mismatch(self) -> bool:
        """Whether ranks have called different operations, so that it can never end."""
        return any(each.debt in ("other-operation", "other-size") for each in self.owing)


@record
class Job:
    """The verdict: the operations without an end, the one that explains the others first.

    `causes` are the ranks at the ends of the chains, and `circle` ranks that wait for each other.
    """

    kind: JobKind
    size: int
    unfinished: tuple[Unfinished, ...] = ()
    causes: tuple[int, ...] = ()
    circle: tuple[int, ...] = ()


def with_absent(members: Mapping[int, Member], size: int) -> dict[int, Member]:
    """The members with those that were not seen: they are missing only if they must be on a machine that was read."""
    local = {rank for member in members.values() for rank in member.identity.neighbours}
    absent = {rank: Member(Identity(rank, size), state="missing" if rank in local else "elsewhere")
              for rank in range(size) if rank not in members}
    return {**members, **absent}


def find_unfinished(members: Mapping[int, Member], size: int, now: float) -> list[Unfinished]:
    """The operations that members have called and not finished, one for each group.

    :param size: how many ranks the job has.
    :param now: in seconds since 1970.
    """
    found: list[Unfinished] = []
    for name in dict.fromkeys(group.name for member in members.values() for group in member.groups):
        views = {rank: next((group for group in member.groups if group.name == name), None)
                 for rank, member in members.items()}
        known = {rank: group for rank, group in views.items() if group is not None}
        found += _unfinished_of(known, members, _members_of(known, size), now)
    silent = {rank: member.awaited for rank, member in members.items()
              if member.awaited is not None and member.awaited.is_pair and member.awaited.peer is None}
    if silent:
        # the other rank is not known: it is one of those that wait for no message
        others = [Owing(rank, _debt(members.get(rank), "no-message")) for rank in range(size) if rank not in silent]
        found.append(Unfinished(None, next(iter(silent.values())), tuple(sorted(silent)), tuple(others),
                                _age(now, silent.values()), len(silent) == size, INFERRED))
    for rank, member in sorted(members.items()):
        awaited = member.awaited
        if awaited is not None and awaited.is_pair and awaited.peer is not None:
            found.append(Unfinished(None, awaited, (rank,), (Owing(awaited.peer, _debt(
                members.get(awaited.peer), "no-message")),), _age(now, [awaited]), evidence=INFERRED))
    return found


def _debt(member: Member | None, alive: Debt) -> Debt:
    """Why a rank owes an operation, if it is not one that it has called in another way."""
    if member is None:
        return "elsewhere"
    return member.state if member.state in ("ended", "missing", "elsewhere") else alive


def _age(now: float, operations: Iterable[Operation]) -> float | None:
    begun = [each.begun for each in operations if each.begun]
    return max(now - min(begun), 0.0) if begun else None


def _members_of(views: Mapping[int, Group], size: int) -> Sequence[int] | None:
    """The ranks of a group; None if nothing lists them."""
    listed = next((group.members for group in views.values() if group.members), None)
    return listed or (range(size) if any(group.is_default for group in views.values()) else None)


def _unfinished_of(views: Mapping[int, Group], members: Mapping[int, Member], ranks: Sequence[int] | None,
                   now: float) -> Iterable[Unfinished]:
    pending = {rank: each for rank, group in views.items()
               if (each := next((each for each in group.pending if not each.is_pair), None)) is not None}
    if not pending:
        return
    number = min(each.number or 0 for each in pending.values())
    waiting = {rank: each for rank, each in pending.items() if (each.number or 0) == number}
    usual = Counter(map(_signature, waiting.values())).most_common(1)[0][0]
    operation = next(each for each in waiting.values() if _signature(each) == usual)
    owing = [Owing(rank, "other-size" if each.name == operation.name else "other-operation", views[rank].last, each)
             for rank, each in sorted(waiting.items()) if _signature(each) != usual]
    owing += [Owing(rank, "stopped" if members[rank].state == "stopped" else "ended", views[rank].last)
              for rank, each in waiting.items() if _signature(each) == usual and members[rank].state != "alive"]
    for rank in ranks or sorted(views):
        view, last = views.get(rank), views[rank].last if rank in views else None
        if rank not in pending and (last is None or (last.number or 0) < number or not number):
            owing.append(Owing(rank, _debt(members.get(rank), "not-called"), view.last if view is not None else None))
    group = next(iter(views.values()))
    yield Unfinished(group.label, operation,
                     tuple(sorted(
                         rank for rank, each in waiting.items()
                         if _signature(each) == usual and members[rank].state == "alive")),
                     tuple(sorted(owing, key=lambda each: each.rank)), _age(now, waiting.values()),
                     ranks is not None, group.evidence)


def _signature(operation: Operation) -> tuple[object, ...]:
    """What has to be equal in all ranks."""
    count = 1
    for each in operation.shape:
        count *= each
    return (operation.name, (count, operation.of) if operation.name in _SAME_SIZE else None)


def judge(members: Mapping[int, Member], size: int, now: float) -> Job:
    """Judge a job. Reports of the ranks that owe an operation tell more; without them it may only be in doubt."""
    members = with_absent(members, size)
    unfinished = find_unfinished(members, size, now)
    if not unfinished:
        return Job("working" if any(member.groups for member in members.values()) else "unknown", size)
    needs: dict[int, set[int]] = {}
    for each in unfinished:
        for rank in each.waiting:
            needs.setdefault(rank, set()).update(
                owing.rank for owing in each.owing if owing.rank != rank)
    # an operation may run beside other work: only a rank that waits for it is known to be held up
    chain = {rank: sorted(others) for rank, others in needs.items()
             if (member := members.get(rank)) is not None and member.awaits is not False}
    circle = next((tuple(ranks) for ranks in find_cycles(chain)
                   if all(members[rank].awaits for rank in ranks)), ())
    owed = {owing.rank for each in unfinished for owing in each.owing}
    causes = tuple(sorted(rank for rank in owed if not chain.get(rank)))
    first = sorted(unfinished, key=lambda each: (not each.mismatch, -len(
        {owing.rank for owing in each.owing} & {*causes}), -(each.seconds or 0.0)))
    job = Job("waits", size, tuple(first), causes, circle)
    longest = max((each.seconds for each in unfinished if each.seconds is not None), default=None)
    if any(each.mismatch and each.evidence == RECORDED for each in unfinished) or any(
            _never_acts(members[rank]) for rank in causes if rank in members):
        return replace(job, kind="hung")
    # a message may be on its way for a moment, and an operation that was read first may have ended since
    is_recorded = all(each.evidence == RECORDED for each in unfinished if set(each.waiting) & {*circle})
    if circle:
        # a thread that was stopped for the report has just run, so it is not known how long it has waited
        lasts = longest is not None and longest >= (_MOMENT if is_recorded else PATIENCE)
        return replace(job, kind="hung") if lasts else job
    is_short = longest is not None and (
        longest < _MOMENT or longest < PATIENCE and _is_at_work(unfinished, causes, members))
    return replace(job, kind="working") if is_short else job


def _is_at_work(unfinished: Sequence[Unfinished], causes: Sequence[int], members: Mapping[int, Member]) -> bool:
    """Whether the ranks that others wait for may be about to act.

    How long a rank has polled is not known, so one that sleeps meanwhile is not at work.
    """
    if any(each.mismatch for each in unfinished) or not causes:
        return not any(each.mismatch or each.operation.is_pair for each in unfinished)
    return all(members[rank].state == "elsewhere" or members[rank].state == "alive" and (
        members[rank].works if unfinished[0].evidence == INFERRED else members[rank].outcome in (None, "fine", "doubt"))
        for rank in causes)


def _never_acts(member: Member) -> bool:
    return member.state in ("ended", "missing") or member.outcome == "stuck"
