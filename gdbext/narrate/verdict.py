"""What stands around the sentence of a verdict: the header, notes, how it is known, what to do next, one line."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator, Mapping
from typing import Literal

from gdbext.model import (
    INFERRED,
    RECORDED,
    Deadlock,
    Evidence,
    Problem,
    Report,
    Thread,
)
from gdbext.model.kinds import GIL
from gdbext.model.reasons import Reason, find_reasons
from gdbext.model.verdict import Verdict
from gdbext.narrate.deadlocks import deadlock_headline
from gdbext.narrate.frames import own_place
from gdbext.narrate.known import known_bug
from gdbext.narrate.names import Facts, lock_name, thread_name
from gdbext.narrate.sentences import MANY_THREADS, continuing, is_said, sentence, some_threads, stopped_by, undecided
from gdbext.narrate.threads import doing
from gdbext.narrate.words import Foreign, Words, capitalised, listed, plural, reason

#: How bad a verdict is.
Tone = Literal["bad", "good", "doubt", "plain"]
#: The problem of a target that has neither a report nor a reason.
NO_REASON = "no reason is known"
#: The tone of each outcome.
_TONES: Mapping[str, Tone] = {"stuck": "bad", "outside": "doubt", "fine": "good", "doubt": "doubt"}
#: The heading of the stacks that follow a verdict.
ALL_THREADS = "Threads:"
#: Notes that are shown with the verdict.
_WITH_VERDICT = frozenset(("children-ended",))
#: Problems that name a part which was left out on purpose.
_LEFT_OUT = frozenset(("made-without-gdb", "redacted"))
#: The heading of the evidence.
HOW_KNOWN = "How this is known:"


def counts(report: Report) -> str:
    """The number of threads in each state."""
    on_locks = {lock.id for lock in report.locks if not lock.is_outside}
    others = [thread for thread in report.threads if thread.waits is None or thread.waits.lock not in on_locks]
    blocked = sum(thread.status == "blocked" for thread in others)
    running = sum(thread.status == "running" for thread in others)
    waiting = len(report.threads) - len(others)
    runs = "ran" if report.target.stopped is not None else "runs" if running == 1 else "run"
    return (f"{plural(len(report.threads), 'thread')}: {waiting:,} {'waits' if waiting == 1 else 'wait'} for a lock or "
            f"event, {blocked:,} {'is in another system call' if blocked == 1 else 'are in other system calls'}, "
            f"{running:,} {runs}.")


def gil_holders(facts: Facts) -> Iterator[Words]:
    """One sentence for each held GIL: its holder, and what that thread does unless the verdict's sentence says it."""
    for lock in facts.report.locks:
        if lock.kind == GIL and lock.holders:
            holder = facts.threads.get(lock.holders[0].thread)
            if holder is not None:
                does: Words = () if is_said(facts, holder) else (", which ", *doing(facts, holder))
                yield (*capitalised(lock_name(facts, lock)), " is held by ", *thread_name(facts, holder.number),
                       *does, ".")


def notes(report: Report) -> Iterator[Words]:
    """The notes and problems of a report."""
    yield from (("Note: ", reason(note)) for note in report.notes if note.code not in _WITH_VERDICT)
    yield from (("Left out: ", reason(problem.why)) if problem.why.code in _LEFT_OUT
                else ("Not known: ", *problem_words(problem)) for problem in report.problems)


def taken_out(report: Report) -> list[Words]:
    """What was taken out of a report because it is private; empty of a report with everything."""
    return [(reason(problem.why),) for problem in report.problems if problem.why.code == "redacted"]


def problem_words(problem: Problem) -> Words:
    """What is not known, and why."""
    return (Foreign(problem.where, 200), f": {problem.what}: ", reason(problem.why))


# -- the first screen ------------------------------------------------------------------------------------------------


def header(report: Report) -> Words:
    """What the report is about: command line, process or core, machine, Python, time, and how long it was paused."""
    target = report.target
    program = target.command_line or target.executable
    parts: list[Words] = []
    place: Words = (" on ", Foreign(target.host)) if target.host else ()
    parts.append((f"PID {target.pid}" if target.kind == "live" else f"core of PID {target.pid}", *place))
    if target.kept is not None and target.whole is not None:
        parts.append((f"truncated: only {target.kept:,} of {target.whole:,} bytes are there",))
    parts += [(f"CPython {runtime.version}" + ("" if runtime.build == "default" else f" {runtime.build}"),)
              for runtime in report.runtimes[:MANY_THREADS]]
    if target.time is not None:
        parts.append((utc(target.time),))
    if target.paused is not None:
        parts.append((f"paused {target.paused:.2f} s" if target.paused else "not paused",))
    return ("gdbext: ", *((Foreign(program, 100), "  ") if program else ()), *listed(parts))


def utc(seconds: float) -> str:
    """A time in seconds since the epoch as a date and time of day in UTC."""
    try:
        return time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(seconds))
    except (OverflowError, OSError, ValueError):
        return "at an unknown time"


def tone(verdict: Verdict) -> Tone:
    """How bad a verdict is."""
    return _TONES[verdict.outcome]


def remarks(facts: Facts) -> Iterator[Words]:
    """What a verdict leaves open, as whether there was a deadlock in a program that crashed; and notes about it."""
    report = facts.report
    yield from map(known_bug, report.known)
    if report.target.stopped is not None and facts.verdict.kind != "stopped":
        step = continuing(report)
        yield ("The process is stopped, too: ", *stopped_by(report.target.stopped), f": {step}." if step else ".")
    yield from (("Note: ", reason(note), ".") for note in report.notes if note.code in _WITH_VERDICT)
    if report.no_verdict is not None and not report.deadlocks and facts.verdict.kind != "unknown":
        yield (*capitalised(undecided(report)), ".")


def how_known(facts: Facts) -> list[Words]:
    """How the statements of a verdict are known: each evidence with its reason, once.

    Empty if the verdict only says what the threads do.
    """
    known: dict[tuple[Evidence, Reason | None], None] = {}
    for deadlock in facts.report.deadlocks:
        if deadlock.standstill:
            known[(deadlock.evidence, deadlock.why)] = None
        for edge in deadlock.edges:
            lock = facts.locks.get(edge.lock)
            if deadlock.owner_gone and edge.holder is None and lock is not None:
                known[(lock.orphan_evidence, lock.why)] = None
            elif edge.holder is not None and not (deadlock.standstill and edge.why is None):
                known[(edge.evidence, edge.why if edge.evidence != RECORDED else None)] = None
    if facts.verdict.kind == "task-cycle":
        return [("derived: from what the coroutines of the tasks await",)]
    if facts.verdict.kind == "greenlet-cycle":
        return _how_greenlets_known(facts)
    if facts.verdict.kind == "pool" and not any(map(_has_holders, facts.report.deadlocks)):
        return [("inferred: every worker waits, and no thread runs",)]
    if facts.verdict.kind == "children" and facts.verdict.evidence == INFERRED:
        return [("inferred: another thread, which may bring the result, waits for child processes",)]
    made: list[Words] = []
    for evidence, why in known:
        if evidence == RECORDED:
            made.append(("recorded: the locks name their owners",))
        else:
            made.append((evidence, *((": ", reason(why, 800)) if why is not None else ())))
    return made


def _has_holders(deadlock: Deadlock) -> bool:
    return any(edge.holder is not None for edge in deadlock.edges)


def _how_greenlets_known(facts: Facts) -> list[Words]:
    known: dict[tuple[Evidence, Reason | None], None] = {}
    for cycle in facts.report.greenlet_cycles:
        for each in facts.known_greenlets(cycle):
            if each.waits is not None and each.waits.holders and each.waits.evidence is not None:
                known[each.waits.evidence, each.waits.why] = None
    made: list[Words] = [("recorded: what wakes each greenlet",)]
    for evidence, why in known:
        made.append(("recorded: the locks name their owners",) if why is None else (evidence, ": ", reason(why, 800)))
    return made


def next_step(facts: Facts) -> str:
    """The command that finds out more; empty if there is none."""
    target, verdict = facts.report.target, facts.verdict
    if target.kind != "live":
        return ""
    if verdict.kind == "stopped":
        return continuing(facts.report)
    if verdict.kind == "job":
        return f"gdbext ranks {target.pid}"
    if verdict.kind == "children":
        return f"gdbext report --children {target.pid}"
    if verdict.kind in ("blocked-behind", "event-loop-blocked") and verdict.threads:
        thread = facts.threads.get(verdict.threads[0])
        lock = facts.awaited(thread) if thread is not None else None
        others = [pid for process in find_reasons(lock.why if lock is not None else None, "process")
                  for name, pid in process.arguments if name == "pid" and pid != target.pid]
        if others:
            return f"gdbext report {others[0]}"
    return ""


def next_arguments(facts: Facts) -> list[str] | None:
    """The command of `next_step` as a list of arguments; None if there is none."""
    step = next_step(facts)
    # to write to the file of a cgroup needs a shell
    return (["sh", "-c", step] if " > " in step else shlex.split(step)) or None


def behind_lines(facts: Facts) -> Iterator[Words]:
    """The threads that wait behind those of a verdict: each group of equal waits on one line."""
    groups: dict[str, list[Thread]] = {}
    for thread in facts.known(facts.verdict.behind):
        place = own_place(thread)
        groups.setdefault(f"{thread.waits.lock if thread.waits else ''} {place}", []).append(thread)
    for members in groups.values():
        place = own_place(members[0])
        at: Words = (", at ", Foreign(place, 200)) if place else ()
        names = some_threads(facts, [thread.number for thread in members])
        if len(members) == 1:
            yield (*names, " ", *doing(facts, members[0]), *at)
        else:
            yield (*names, ": each ", *doing(facts, members[0]), *at)


# -- on one line -----------------------------------------------------------------------------------------------------


def headline(facts: Facts) -> tuple[Tone, Words]:
    """The verdict on one line, and its tone."""
    report, verdict = facts.report, facts.verdict
    parts: list[Words] = []
    if report.crash is not None:
        fault = report.crash.fault
        parts.append((f"{fault.signal}: ", reason(fault.text, 200)))
    parts += [deadlock_headline(facts, deadlock) for deadlock in report.deadlocks[:3]]
    if len(report.deadlocks) > 3:
        parts.append((plural(len(report.deadlocks) - 3, "more deadlock"),))
    if report.task_cycles:
        parts.append((f"cycle of {plural(len(report.task_cycles[0]), 'task')}",))
    if report.greenlet_cycles:
        parts.append((f"cycle of {plural(len(report.greenlet_cycles[0]), 'greenlet')}",))
    if parts:
        if report.target.stopped is not None:
            parts.append(("stopped: ", *stopped_by(report.target.stopped)))
        return "bad", listed(parts, "; ")
    if not report.threads and report.verdict is None:  # a document that contains only some members
        return "plain", ("deadlocks were not searched for",)
    return tone(verdict), sentence(facts)


def not_seen(problem: str) -> tuple[Tone, Words]:
    """The headline of a target without a report."""
    return "doubt", ("could not be inspected: ", Foreign(problem, 300))


