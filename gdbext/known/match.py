"""Compares a report with the fingerprints of known bugs. Pure, but for versions, which the caller finds."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import permutations

from gdbext.known.fingerprint import CPYTHON, Fingerprint, TaskPrint, ThreadPrint, fingerprints
from gdbext.model import Frame, Lock, PyFrame, Report, Task, Thread
from gdbext.model.known import KnownBug
from gdbext.model.reasons import find_reasons
from gdbext.model.verdict import Verdict

#: Finds the versions of the packages that contain some files, by the names of the packages.
Versions = Callable[[Collection[str]], Iterable["tuple[str, str]"]]
#: The highest number of threads that are tried together.
_MOST_THREADS = 200


def known_bugs(report: Report, verdict: Verdict, versions: Versions) -> tuple[KnownBug, ...]:
    """The known bugs that a report looks like.

    All facts that the report contains must agree. If the version is not known, one fact is missing.
    """
    locks = {lock.id: lock for lock in report.locks}
    found = []
    for bug in fingerprints():
        files = _matching_files(bug, report, verdict, locks)
        if files is None:
            continue
        version = _version(bug.package, report, files, versions)
        affected = None if version is None else bug.is_affected(version)
        if affected is not False:
            facts = _count(bug)
            found.append(KnownBug(bug.id, bug.title, bug.url, bug.package, version, bug.fixed_in(version),
                                  facts if affected else facts - 1, facts, bug.workaround))
    return tuple(found)


def _count(bug: Fingerprint) -> int:
    """The number of facts of a bug: its verdict, each thing about its threads and tasks, reasons, the version."""
    of_threads = sum(bool(each.waits_for) + bool(each.holds) + bool(each.frames) for each in bug.threads)
    of_tasks = sum(bool(each.waits_for) + bool(each.frames) + each.unheld for each in bug.tasks)
    return 2 + of_threads + of_tasks + len(bug.reasons)


def _matching_files(bug: Fingerprint, report: Report, verdict: Verdict,
                    locks: dict[str, Lock]) -> list[str] | None:
    """The files of the frames of a bug that a report has; None if a fact does not agree."""
    if verdict.kind not in bug.verdicts:
        return None
    whys = [why for deadlock in report.deadlocks for why in (deadlock.why, *(edge.why for edge in deadlock.edges))
            if why is not None]
    if not all(any(True for why in whys for _ in find_reasons(why, code)) for code in bug.reasons):
        return None
    files: list[str] = []
    for each in bug.tasks:
        own = next((own for task in report.tasks if (own := _task_agrees(each, task)) is not None), None)
        if own is None:
            return None
        files += own
    concerned = {*verdict.threads, *(number for deadlock in report.deadlocks for number in deadlock.involved)}
    choices = [[(thread.number, own) for thread in report.threads[:_MOST_THREADS]
                if (index > 0 or thread.number in concerned) and (own := _agrees(each, thread, locks)) is not None]
               for index, each in enumerate(bug.threads)]
    chosen = _distinct(choices)
    return None if chosen is None else files + chosen


def _distinct(choices: Sequence[Sequence[tuple[int, list[str]]]]) -> list[str] | None:
    """The files of different threads, one from each list; None if there are not so many."""
    if not choices:
        return []
    if not all(choices):
        return None
    for order in permutations(range(len(choices))):
        taken: dict[int, list[str]] = {}
        for index in order:
            free = next(((number, files) for number, files in choices[index] if number not in taken), None)
            if free is None:
                break
            taken[free[0]] = free[1]
        else:
            return [file for files in taken.values() for file in files]
    return None


def _agrees(wanted: ThreadPrint, thread: Thread, locks: dict[str, Lock]) -> list[str] | None:
    """The files of the frames of a thread that agrees with a fingerprint; None if it does not."""
    awaited = locks.get(thread.waits.lock) if thread.waits is not None else None
    if wanted.waits_for and (awaited is None or awaited.kind not in wanted.waits_for):
        return None
    held = {lock.kind for hold in thread.holds if (lock := locks.get(hold.lock)) is not None}
    if wanted.holds and held.isdisjoint(wanted.holds):
        return None
    return _in_order(wanted.frames, thread.stack)


def _task_agrees(wanted: TaskPrint, task: Task) -> list[str] | None:
    """As `_agrees`, of a task."""
    awaits = task.awaits
    if wanted.waits_for and awaits.kind not in wanted.waits_for or wanted.unheld and awaits.holders:
        return None
    return _in_order(wanted.frames, task.stack)


def _in_order(wanted: Sequence[tuple[str, str]], stack: Sequence[Frame]) -> list[str] | None:
    """The files of the frames that a stack has in this order; None if it has not all of them."""
    python = _python_frames(stack)
    files = []
    for function, path in wanted:
        frame = next((frame for frame in python if frame.function == function
                      and f"/{frame.file}".endswith(f"/{path}")), None)
        if frame is None:
            return None
        files.append(frame.file)
    return files


def _python_frames(stack: Iterable[Frame]) -> Iterator[PyFrame]:
    return (frame for frame in stack if isinstance(frame, PyFrame))


def _version(package: str, report: Report, files: Collection[str], versions: Versions) -> str | None:
    if package == CPYTHON:
        found = {runtime.version for runtime in report.runtimes}
        return found.pop() if len(found) == 1 else None
    return next((version for name, version in versions(files) if name.lower() == package.lower()), None)
