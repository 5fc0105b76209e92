"""A job of several ranks: its verdict, and the lines about its ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gdbext.jobs.job import Debt, Job, Member, Owing, Unfinished
from gdbext.model import Operation
from gdbext.narrate.names import number_list
from gdbext.narrate.operations import operation_name, tensor
from gdbext.narrate.words import plural

_TITLES = {"hung": "HUNG JOB", "waits": "WAITING JOB", "working": "WORKING", "unknown": "UNKNOWN"}
_DEBTS: dict[Debt, str] = {
    "not-called": "not called it", "no-message": "not answered", "stopped": "been stopped", "ended": "ended",
    "missing": "no process", "elsewhere": "not been read", "other-operation": "called another operation",
    "other-size": "called it with another size"}
#: What is said of a rank without a process.
ABSENT = {"missing": "there is no process on this machine",
          "elsewhere": "not read: of another machine or container, or not named"}
#: Most ranks and ranges of ranks that a list names.
_MANY = 8


def rank_list(ranks: Sequence[int]) -> str:
    """``ranks 0-2, 4-15``."""
    return number_list(sorted(ranks), "rank", _MANY)


def verdict_title(job: Job) -> str:
    """The title of a job's verdict."""
    return _TITLES[job.kind]


def verdict_sentence(job: Job, ranks: int) -> str:
    """What the job waits for.

    :param ranks: how many ranks were seen.
    """
    if job.circle:
        return f"{rank_list(job.circle)} wait for each other: each is in an operation that needs another one of them"
    if not job.unfinished:
        seen = plural(ranks, "rank")
        return (f"no operation of {seen} is without an end" if job.kind == "working" else
                f"no operation of {seen} is known; the stacks are below")
    first = job.unfinished[0]
    since = f" for {first.seconds:.0f} s" if first.seconds is not None and first.seconds >= 1 else ""
    waiting = (f"{len(first.waiting):,} of {plural(job.size, 'rank')} "
               f"wait{'s' if len(first.waiting) == 1 else ''} in {operation_name(first.operation, first.group)}{since}")
    more = f"; and {plural(len(job.unfinished) - 1, 'more operation')}" if len(job.unfinished) > 1 else ""
    if first.operation.is_pair and not first.owing:
        calls = f"{rank_list(first.waiting)} in {operation_name(first.operation)}"
        return f"all its ranks wait for messages of each other, {calls}{since}"
    if not first.complete and not first.owing:
        return f"{waiting}, whose members are not known{more}"
    if not first.owing:
        return f"all its ranks take part in {operation_name(first.operation, first.group)}{since}{more}"
    return f"{waiting}; {_debts(first)}{more}"


def debt_of(unfinished: Unfinished, owing: Owing) -> str:
    """What a rank has not done: ``has not called all_reduce #13 of default_pg``."""
    if owing.debt == "not-called":
        return f"has not called {operation_name(unfinished.operation, unfinished.group)}"
    return _debts(replace(unfinished, owing=(owing,))).partition(f"{rank_list([owing.rank])} ")[2]


def _debts(unfinished: Unfinished) -> str:
    parts = []
    for debt in dict.fromkeys(each.debt for each in unfinished.owing):
        owing = [each for each in unfinished.owing if each.debt == debt]
        ranks = rank_list([each.rank for each in owing])
        have = "has" if len(owing) == 1 else "have"
        other = next((each.other for each in owing if each.other is not None), None)
        if debt == "other-operation" and other is not None:
            parts.append(f"{ranks} called {operation_name(other)} in its place")
        elif debt == "other-size" and other is not None:
            parts.append(f"{ranks} called it with {tensor(other)}, not {tensor(unfinished.operation)}")
        else:
            parts.append(f"{ranks} {have} {_DEBTS[debt]}" + (" any more" if debt == "missing" else ""))
    return ", ".join(parts)


def state_of(member: Member) -> str:
    """What has happened to a rank's process; empty if it is alive."""
    if member.state == "stopped":
        return "stopped" + (f" by {member.signal}" if member.signal else "")
    if member.state == "ended":
        return f"killed by {member.signal}" if member.signal else "it has ended"
    return ABSENT.get(member.state, "")


def place_of(member: Member, hosts: int) -> str:
    """The PID of a rank, and its machine if there are several."""
    where = f" on {member.host}" if hosts > 1 and member.host else ""
    return f"PID {member.pid}{where}" if member.pid is not None else ""


def processes_of(members: Sequence[Member], hosts: int) -> str:
    """The PIDs of some ranks; their number if they run on several machines."""
    if len(members) == 1:
        return place_of(members[0], hosts)
    if hosts > 1:
        return f"{len(members):,} processes on {plural(len({member.host for member in members}), 'machine')}"
    return number_list(sorted(member.pid for member in members if member.pid is not None), "PID", _MANY)


def last_finished(operation: Operation | None) -> str:
    """What a rank has finished last."""
    return f"last finished: {operation_name(operation)}" if operation is not None else "has finished none of the group"


def in_no_operation(others_wait: bool) -> str:
    """What is said of ranks that nobody waits for.

    :param others_wait: whether other ranks wait in operations.
    """
    return "in no operation that others wait for" if others_wait else "in no operation"


def how_known(evidence: str, stripped: Sequence[str] = ()) -> str:
    """How the operations are known.

    :param stripped: the files without a table of symbols, which would have the recorder.
    """
    if evidence == "recorded":
        return "How this is known: the flight recorder in each rank's memory (recorded)"
    known = "How this is known: the functions in which the threads wait, which do not say which operation (inferred)"
    return known + (f". A flight recorder is not found without the symbols that {', '.join(stripped)} "
                    f"{'has' if len(stripped) == 1 else 'have'} lost" if stripped else "")
