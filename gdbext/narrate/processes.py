"""A process with its descendants: the lines about processes and about their waits for each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gdbext.model import RECORDED, Report, Thread
from gdbext.model.reasons import Reason
from gdbext.narrate.frames import own_frame
from gdbext.narrate.names import Facts, thread_name
from gdbext.narrate.sentences import sentence, verdict_title
from gdbext.narrate.threads import doing
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


def end_of_chains(processes: Sequence[ProcessName], behind: int, lost: bool) -> Words:
    """The processes that all others wait for in the end.

    :param lost: whether they wait for a message that is lost.
    """
    others = f"{plural(behind, 'process')} wait{'s' if behind == 1 else ''} for "
    if len(processes) == 1:
        return (others, *process_name(processes[0]), ", directly or not")
    what = " wait for a message of each other, and none is on the way" if lost else " wait for each other"
    return (*listed(map(process_name, processes)), what, *((f"; {others}them",) if behind else ()))


def deadlock_with(pids: Sequence[int]) -> Words:
    """The answer for a process that deadlocks with others."""
    return (f"DEADLOCK with process{'es' if len(pids) > 1 else ''} {', '.join(map(str, pids))}",)


def process_line(process: ProcessName, report: Report | None, problem: str | None, whole: bool,
                 deadlocked_with: Sequence[int] = (), at_rest: bool = False, goes_on: bool = False) -> Words:
    """A process with its verdict.

    :param whole: whether the sentence follows the verdict's title.
    :param deadlocked_with: the other processes of a deadlock, which matters more than the process's own verdict.
    :param at_rest: whether it and those that it waits for have no work.
    :param goes_on: whether it, or one that it waits for, goes on.
    """
    if deadlocked_with:
        return (*process_name(process), ": ", *deadlock_with(deadlocked_with))
    if report is None:
        return (*process_name(process), ": could not be inspected", *((": ", Foreign(problem, 300)) if problem else ()))
    facts = Facts(report)
    if facts.verdict.outcome == "outside" and (at_rest or goes_on):
        return (*process_name(process), ": waits for its next work" if at_rest else
                ": waits for others, and goes on")
    said: Words = (": ", *sentence(facts)) if whole else ()
    first = min(report.threads, key=lambda thread: thread.number, default=None)
    if whole and facts.verdict.kind == "idle" and first is not None:
        return (*process_name(process), ": ", *thread_name(facts, first.number), " ", *doing(facts, first))
    return (*process_name(process), f": {verdict_title(facts.verdict)}", *said)


def deadlock_heading(pids: Sequence[int], evidence: str, why: Reason | str | None, lost: bool = False) -> Words:
    """The heading of a deadlock between processes.

    :param lost: whether they wait for messages of each other, and none is on the way.
    """
    known: Words = (f" ({RECORDED}: ", reason(why), ")") if evidence == RECORDED and why else known_by(evidence, why)
    what = "Lost message: each waits for a message of another one of" if lost else "Deadlock between"
    return (f"{what} processes {', '.join(map(str, pids))}", *known)


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
    frame, _ = own_frame(thread) if thread is not None else (None, 0)
    place: Words = () if frame is None else (
        ", at ", Foreign(f"{frame.file}:{frame.line}", 200), " in ", Foreign(frame.function))
    if kind == "child" or awaited.code == "end-of-thread":
        return (*line, *place)
    if releasing_thread is not None:
        return (*line, f" of thread {releasing_thread}", *place)
    names: list[Words] = [("itself",) if process == waiter else (
        *process_name(process), *((" (inherited at fork)",) if process.pid in inherited else ()))
        for process in holders[:_MANY]]
    more = f" and {len(holders) - _MANY} more" if len(holders) > _MANY else ""
    return (*line, f", which {_RELATIONS.get(kind, 'is held by')} ", *listed(names), more, *place)


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
