"""A process with its descendants: the lines about processes and about their waits for each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gdbext.model import RECORDED, Report, Thread
from gdbext.model.reasons import Reason
from gdbext.narrate.names import Facts
from gdbext.narrate.sentences import sentence, verdict_title
from gdbext.narrate.words import Foreign, Words, known_by, listed, plural, reason

#: How many processes one line names.
_MANY = 4
#: What the processes of a wait have to do with it, by the kind of the wait.
_RELATIONS = {"pipe": "has its other end in", "socket": "has its other end in",
              "terminal": "has its other end in", "descriptors": "lead to",
              "lock": "may be released by"}

#: The heading of the tree.
TREE = "Processes:"


class ProcessName(NamedTuple):
    """A process by its PID, and the name of its first thread where that is known."""

    pid: int
    name: str | None


def _quoted(name: str | None) -> Words:
    return (' "', Foreign(name), '"') if name else ()


def process_name(process: ProcessName) -> Words:
    """A process by PID and name."""
    return (f"process {process.pid}", *_quoted(process.name))


def tree_summary(count: int, across: int, inside: int, unknown: int) -> str:
    """How many processes there are, in deadlocks with each other, with deadlocks inside, and without a verdict."""
    return (f"{plural(count, 'process')}: {across:,} deadlocked with each other, "
            f"{inside:,} with a deadlock of their own" + (f", {unknown:,} without a verdict" if unknown else ""))


def deadlock_with(pids: Sequence[int]) -> Words:
    """The answer for a process that deadlocks with others."""
    return (f"DEADLOCK with process{'es' if len(pids) > 1 else ''} {', '.join(map(str, pids))}",)


def process_line(process: ProcessName, report: Report | None, problem: str | None, whole: bool,
                 deadlocked_with: Sequence[int] = ()) -> Words:
    """A process with its verdict.

    :param whole: whether the sentence follows the verdict's title.
    :param deadlocked_with: the other processes of a deadlock, which matters more than the process's own verdict.
    """
    if deadlocked_with:
        return (*process_name(process), ": ", *deadlock_with(deadlocked_with))
    if report is None:
        return (*process_name(process), ": could not be inspected", *((": ", Foreign(problem, 300)) if problem else ()))
    facts = Facts(report)
    said: Words = (": ", *sentence(facts)) if whole else ()
    return (*process_name(process), f": {verdict_title(facts.verdict)}", *said)


def deadlock_heading(pids: Sequence[int], evidence: str, why: Reason | str | None) -> Words:
    """The heading of a deadlock between processes."""
    known: Words = (f" ({RECORDED}: ", reason(why), ")") if evidence == RECORDED and why else known_by(evidence, why)
    return (f"Deadlock between processes {', '.join(map(str, pids))}", *known)


def wait_line(waiter: ProcessName, number: int, thread: Thread | None, kind: str, awaited: Reason,
              releasing_thread: int | None, holders: Sequence[ProcessName], inherited: Sequence[int] = ()) -> Words:
    """A thread's wait for other processes, or for a thread of its own process.

    :param number: of the waiting thread; `thread` is None if the report does not have it.
    :param releasing_thread: the only thread that can end the wait, where it is of the same process.
    :param holders: the processes that can end it.
    :param inherited: those of them that got a pipe or socket from the process that forked them.
    """
    name = (thread.python_name or thread.name) if thread is not None else None
    line: Words = (*process_name(waiter), f" thread {number}", *_quoted(name), " waits ",
                   reason(awaited)._replace(limit=400))
    if kind == "child" or awaited.code == "end-of-thread":
        return line
    if releasing_thread is not None:
        return (*line, f" of thread {releasing_thread}")
    names: list[Words] = [("itself",) if process == waiter else (
        *process_name(process), *((" (inherited at fork)",) if process.pid in inherited else ()))
        for process in holders[:_MANY]]
    more = f" and {len(holders) - _MANY} more" if len(holders) > _MANY else ""
    return (*line, f", which {_RELATIONS.get(kind, 'is held by')} ", *listed(names), more)


def stuck_behind(processes: Sequence[ProcessName]) -> Words:
    """The processes that wait for those of a deadlock."""
    return ("stuck behind it: ", *listed(map(process_name, processes)))


def waits_heading(others_shown: bool) -> str:
    """The heading of the waits that are in no deadlock.

    :param others_shown: whether there is a deadlock between processes.
    """
    return f"{'Other waits' if others_shown else 'Waits'} between processes:"


def unknown_waits(why: Reason) -> Words:
    """That waits for descriptors are not known, and why."""
    return ("Not known: which processes wait for each other by descriptors: ", reason(why))


def class_heading(representative: str, alike: Sequence[str]) -> str:
    """The heading of a process's own report, with the processes in which the same happened."""
    more = f" and {len(alike) - 2 * _MANY:,} more" if len(alike) > 2 * _MANY else ""
    return f"---- {representative}" + (f", and alike: {', '.join(alike[:2 * _MANY])}{more}" if alike else "")
