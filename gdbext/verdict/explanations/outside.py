"""Explanations by what is outside of the process: child processes, file systems, lookups, other ends."""

from __future__ import annotations

from gdbext.model import INFERRED, NativeFrame, Thread
from gdbext.model.verdict import Verdict, VerdictKind
from gdbext.verdict.scene import Scene

#: Functions of the C library that look up addresses or names of hosts.
_LOOKUPS = frozenset((
    "getaddrinfo", "gethostbyaddr", "gethostbyaddr_r", "gethostbyname", "gethostbyname2", "gethostbyname2_r",
    "gethostbyname_r", "getnameinfo"))


def blocked_behind(scene: Scene) -> Verdict | None:
    """A thread with others behind it waits for something outside of the process, and no thread runs.

    Of several such threads, the one with most others behind it.
    """
    best: Verdict | None = None
    if not {*scene.running} <= {*scene.offloaded}:
        return None
    for number, thread in scene.threads.items():
        if number not in scene.waiting or not (scene.waits_outside(thread) or scene.waits_for_event(thread)):
            continue
        behind = scene.behind(number)
        if len(behind) <= (len(best.behind) if best is not None else 0):
            continue
        joined = all(scene.only_joins(scene.threads[other]) for other in behind)
        if scene.waits_outside(thread) and not (joined and scene.is_served(thread)):
            kind = _kind(scene, thread)
        elif not joined:
            kind = "blocked-behind"
        else:
            continue
        best = Verdict(kind, (number,), tuple(behind))
    return best


def _kind(scene: Scene, thread: Thread) -> VerdictKind:
    """What is outside of the process that a thread waits for."""
    if scene.awaits_ranks(thread):
        return "job"
    return "children" if scene.waits_for_children(thread) else "blocked-behind"


def job(scene: Scene) -> Verdict | None:
    """The process has called an operation of a job a while ago, which other ranks have to take part in."""
    if scene.running or not scene.overdue():
        return None
    waiting = [number for number, thread in scene.threads.items() if scene.awaits_ranks(thread)]
    number = waiting[0] if waiting else scene.first
    return Verdict("job", (number,), tuple(scene.behind(number)))


def in_kernel(scene: Scene) -> Verdict | None:
    """Threads wait for a file system, a database or a name server, which answer at once as a rule."""
    if scene.running:
        return None
    found = [thread.number for thread in scene.report.threads
             if scene.is_in_file_system(thread) or _looks_up_name(scene, thread)]
    if not found:
        return None
    behind = dict.fromkeys(other for number in found for other in scene.behind(number) if other not in found)
    return Verdict("blocked-behind", tuple(found), tuple(behind))


def _looks_up_name(scene: Scene, thread: Thread) -> bool:
    """Whether a thread waits in a function that looks up the address of a host."""
    lock = scene.locks.get(thread.waits.lock) if thread.waits is not None else None
    return lock is not None and lock.is_outside and scene.has_waited(thread) and any(
        isinstance(frame, NativeFrame) and frame.function in _LOOKUPS for frame in thread.stack)


def first_thread(scene: Scene) -> Verdict | None:
    """The first thread waits for child processes, or for something else outside of the process."""
    first = scene.threads.get(scene.first)
    if first is None or scene.is_served(first) or scene.running or first.number in scene.offloaded:
        return None
    if scene.takes_next(first):
        return None
    if scene.waits_outside(first):
        return Verdict(_kind(scene, first), (first.number,))
    # other threads bring the results of child processes, unless they wait for the first thread themselves
    if (scene.waits_for_result(first) and first.number not in scene.waiting
            and any(scene.waits_for_children(thread) for thread in scene.report.threads)):
        return Verdict("children", (first.number,), evidence=INFERRED)
    return None
