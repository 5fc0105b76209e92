"""Verdicts of many targets: the title of a class of targets, and the summary of all classes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from gdbext.model import Crash, Frame, PyFrame, Thread
from gdbext.narrate.brief import brief, place
from gdbext.narrate.deadlocks import deadlock_headline
from gdbext.narrate.frames import frame_line
from gdbext.narrate.names import Facts, heading, short_lock, thread_name
from gdbext.narrate.sentences import sentence, stopped_by, undecided, verdict_title
from gdbext.narrate.words import Foreign, Words, listed, plain, plural, reason

#: The kinds of verdicts. `UNKNOWN`: no deadlock was found, and none can be ruled out.
DEADLOCK, CRASH, STOPPED, UNKNOWN, OTHER = "deadlock", "crash", "stopped", "unknown", "other"
#: The order of classes in a report.
KINDS = (DEADLOCK, CRASH, STOPPED, UNKNOWN, OTHER)
#: The C library's modules; the first frame outside of them shows where a thread waits.
C_LIBRARY = re.compile(r"(libc|libpthread|ld-linux-(x86-64|aarch64)|ld-musl-(x86_64|aarch64))[-.]")
_RUNTIME = re.compile(C_LIBRARY.pattern + r"|libstdc\+\+|libc\+\+|libgcc_s")
#: The headings of targets that could not be read, or only in part.
NOT_READ, READ_IN_PART = "Not read:", "Read in part:"
#: How many locks a headline of a process names.
MANY_LOCKS = 4
#: How many groups of threads a class shows.
_MANY_THREADS = 4
#: The functions in which an event loop waits.
_EVENTS = ("epoll_wait", "epoll_pwait", "epoll_pwait2", "poll", "ppoll", "select", "pselect")
#: The functions of the MPI standard, and their profiling variants.
_MPI = re.compile(r"P?MPI_[A-Z]")


def module_of(frame: Frame) -> str | None:
    """The module of a native frame."""
    return None if isinstance(frame, PyFrame) else frame.module


def is_mpi(frame: Frame) -> bool:
    """Whether a frame is a call of MPI."""
    return not isinstance(frame, PyFrame) and _MPI.match(frame.function or "") is not None


def without_polling(stack: Sequence[Frame]) -> Sequence[Frame]:
    """The frames of a stack from the innermost call of MPI outwards; all frames without such a call.

    Open MPI and MPICH wait in a loop over their transports, and a snapshot may find them in any function of it.
    """
    at = next((index for index, frame in enumerate(stack) if is_mpi(frame)), None)
    if at is None:
        return stack
    library = module_of(stack[at])
    caller = module_of(stack[at + 1]) if at + 1 < len(stack) else library
    for frame in stack[:at]:
        # a callback runs in Python or in the file that calls MPI; one in a file that contains MPI is not recognised
        if isinstance(frame, PyFrame) or module_of(frame) == caller != library:
            return stack
    return stack[at:]


def kind_of_verdict(facts: Facts) -> str:
    """The kind of verdict on a target.

    A program that another process killed may have hung before: it is judged by its stacks, like a live one.
    """
    report = facts.report
    if facts.verdict.kind == "stopped":
        return STOPPED
    if report.deadlocks:
        return DEADLOCK
    if report.crash is not None and report.crash.fault.kind != "sent":
        return CRASH
    return UNKNOWN if report.no_verdict or facts.verdict.kind == "unknown" else OTHER


def title(facts: Facts) -> Words:
    """The verdict on a target, on one line."""
    report, kind = facts.report, kind_of_verdict(facts)
    if kind == DEADLOCK:
        more = len(report.deadlocks) - 1
        return (*deadlock_headline(facts, report.deadlocks[0]),
                f"; and {plural(more, 'more deadlock')}" if more else "")
    if kind == CRASH and report.crash is not None:
        return _crash(report.crash)
    stopped: Words = (*stopped_by(report.target.stopped), "; ") if report.target.stopped is not None else ()
    first = min(report.threads, key=lambda thread: thread.number, default=None)
    does: Words = ("no threads",) if first is None else _first_thread(facts, first)
    if kind == STOPPED:
        return (*stopped, *does)
    if kind == OTHER:
        # what the first thread does says more than that nothing is wrong
        is_about_first = first is None or facts.verdict.kind == "idle" or facts.verdict.threads == (first.number,)
        says = does if facts.verdict.outcome == "fine" and is_about_first else sentence(facts)
        return (f"{verdict_title(facts.verdict)}: ", *says)
    return (*(undecided(report) if report.no_verdict else sentence(facts)), "; ", *does)


def guilty_or_innermost(crash: Crash) -> int:
    """The index of the guilty frame; without one, of the innermost frame that is not of a run-time library.

    Two programs that call `abort` have nothing in common because of that.
    """
    stack = crash.stack.frames
    if crash.guilty is not None and crash.guilty < len(stack):
        return crash.guilty
    return next((index for index, frame in enumerate(stack) if not _RUNTIME.match(module_of(frame) or "")), 0)


def _crash(crash: Crash) -> Words:
    fault, stack, index = crash.fault, crash.stack.frames, guilty_or_innermost(crash)
    at = stack[index] if index < len(stack) else None
    where: Words = (" in ", Foreign(frame_line(at), 300)) if at is not None else ()
    return (f"{fault.signal}, {fault.kind}", *where, ": ", reason(fault.text))


def _first_thread(facts: Facts, first: Thread) -> Words:
    """What a thread does, and the caller of MPI if it is in a call of MPI."""
    stack = without_polling(first.stack)
    call: Words = ()
    if len(stack) > 1 and is_mpi(stack[0]):
        call, stack = (Foreign(frame_line(stack[0]), 300), " called by "), stack[1:]
    outside = [frame for frame in stack if not C_LIBRARY.match(module_of(frame) or "")]
    frame = next((frame for frame in outside if isinstance(frame, PyFrame)), outside[0] if outside else None)
    if first.status == "blocked":
        does = f" is blocked in {first.syscall or 'a system call'}"
    elif first.status == "running":
        does = " ran" if facts.report.target.stopped is not None else " runs"
    else:
        does = " is in an unknown state"
    where: Words = (" in ", *call, Foreign(frame_line(frame), 300)) if frame is not None else ()
    return (*thread_name(facts, first.number), does, *where)


def threads_of_verdict(facts: Facts, only_where: bool = False) -> list[Words]:
    """The threads that the verdict is about, each with its place in the program's own code.

    Of a crash the thread that died; without such threads the first one, which shows the program's purpose.

    :param only_where: whether what they wait for is left out, because it is above.
    """
    crash = facts.report.crash
    made = [] if crash is not None else [(members, place(members[0]) if only_where else words)
                                         for members, words in brief(facts, _MANY_THREADS).groups]
    if not made:
        first = min(facts.threads, default=None) if crash is None else crash.thread
        made = [((thread,), place(thread)) for thread in facts.known([first] if first is not None else [])]
    return [(*heading(members), ": ", *words) for members, words in made if words]


def with_kind(kind: str, words: str) -> str:
    """The title of a class, preceded by its kind unless the title contains that."""
    return words if kind in (DEADLOCK, OTHER) else f"{kind}: {words}"


def summary(counts: Mapping[str, int], classes: int, failures: int, what: str = "core") -> str:
    """The number of targets of each kind, on one line."""
    parts = [f"{counts[DEADLOCK]:,} deadlocked", f"{counts[CRASH]:,} crashed", f"{counts[OTHER]:,} neither"]
    parts += [f"{counts[STOPPED]:,} stopped"] if counts[STOPPED] else []
    parts += [f"{counts[UNKNOWN]:,} without a verdict"] if counts[UNKNOWN] else []
    text = f"{plural(sum(counts.values()), what)}: {', '.join(parts)}; {plural(classes, 'class')}"
    return text + (f"; {failures:,} could not be read" if failures else "")


def stacks_heading(kind: str, threads: int, representative: str) -> Words:
    """The heading of the stacks of a class's representative."""
    all_threads = f"stacks of all {threads:,} threads" if threads != 1 else "stack of its thread"
    what = {DEADLOCK: "stacks of its threads", CRASH: "innermost frames"}.get(kind, all_threads)
    return (f"{what} in ", Foreign(representative, 300), ":")


# -- processes of a cluster -------------------------------------------------------------------------------------


def process_headline(facts: Facts) -> Words:
    """The verdict on a process of a cluster, on one line: the locks of its deadlock, or whether it runs."""
    report = facts.report
    if report.deadlocks:
        first, more = report.deadlocks[0], len(report.deadlocks) - 1
        names = list(dict.fromkeys(short_lock(facts, edge.lock) for edge in first.edges))
        names.sort(key=lambda name: plain(name) != "the GIL")
        if len(names) > MANY_LOCKS:
            names[MANY_LOCKS:] = [(f"{len(names) - MANY_LOCKS:,} more locks",)]
        between: Words = (" over ", *names[0]) if len(names) == 1 else (
            " between ", *listed(names[:-1]), " and ", *names[-1])
        return ("standstill" if first.standstill else "deadlock", *between, f" ({first.evidence})",
                f" and {plural(more, 'more deadlock')}" if more else "")
    if report.target.stopped is not None:
        return ("stopped: ", *stopped_by(report.target.stopped))
    if report.no_verdict:
        return undecided(report)
    count = len(report.threads)
    running = sum(not _waits(thread) for thread in report.threads)
    if not running:
        return (f"only waits: no deadlock, {f'all {count:,} threads wait' if count != 1 else 'its thread waits'}",)
    return (f"no deadlock, {running:,} of {plural(count, 'thread')} run{'s' if running == 1 else ''}",)


def _waits(thread: Thread) -> bool:
    """Whether a thread is blocked or in a call that waits for events, from which event loops often wake briefly."""
    return thread.status == "blocked" or any(frame.function in _EVENTS for frame in thread.stack[:1])
