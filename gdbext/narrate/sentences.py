"""The sentence of a verdict, which says what the process does: one function for each kind of verdict."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence

from gdbext.model import (
    RESULT_PENDING,
    Deadlock,
    Lock,
    Polling,
    PyFrame,
    Report,
    Stopped,
    Thread,
)
from gdbext.model.connection_pools import pool_of
from gdbext.model.frames import library_of
from gdbext.model.kinds import CONDVAR, kind_of
from gdbext.model.reasons import Reason, find_reasons, parts
from gdbext.model.verdict import Verdict, VerdictKind
from gdbext.narrate.deadlocks import title
from gdbext.narrate.frames import own_place
from gdbext.narrate.greenlets import doing as greenlet_doing
from gdbext.narrate.greenlets import greenlet_name
from gdbext.narrate.locks import holding, holds
from gdbext.narrate.names import MANY_LOCKS, Facts, number_list, short_lock, thread_name
from gdbext.narrate.operations import operation_name
from gdbext.narrate.tasks import doing as task_doing
from gdbext.narrate.tasks import task_name
from gdbext.narrate.threads import doing
from gdbext.narrate.words import Foreign, Words, listed, plain, plural, reason

#: The title of each kind of verdict, in the text's first line.
TITLES: Mapping[VerdictKind, str] = {
    "crash": "CRASH", "stopped": "STOPPED", "deadlock": "DEADLOCK", "task-cycle": "DEADLOCK OF TASKS",
    "greenlet-cycle": "DEADLOCK OF GREENLETS", "orphaned-lock": "LOCK WITHOUT OWNER",
    "no-result": "RESULT NEVER COMES",
    "standstill": "STANDSTILL", "event-loop-blocked": "EVENT LOOP BLOCKED", "blocked-behind": "BLOCKED",
    "job": "WAITS FOR OTHER RANKS",
    "children": "WAITS FOR CHILD PROCESSES", "pool": "POOL EXHAUSTED", "queue": "QUEUE BLOCKED",
    "polling": "POLLING", "computing": "COMPUTING", "idle": "NOTHING WRONG FOUND", "unknown": "UNKNOWN",
}
#: How many locks of one thread a sentence names.
_MANY_HELD = 2
#: How many threads a sentence names.
MANY_THREADS = 3
#: The signals with which the terminal stops a process in the background; it would stop again after SIGCONT.
_OF_TERMINAL = {"SIGTTIN": "read from", "SIGTTOU": "wrote to"}
#: A container in the path of a cgroup: the program that can run it again, and its number.
_CONTAINER = re.compile(r"/(docker|libpod)[-/]([0-9a-f]{12})[0-9a-f]{52}[./]")


def verdict_title(verdict: Verdict) -> str:
    """The title of a verdict; its kind if that is not known, as in a newer report."""
    return TITLES.get(verdict.kind) or verdict.kind.upper()


def sentence(facts: Facts) -> Words:
    """What is wrong, or what the threads do if nothing is, without a full stop.

    A document of another version may lack what its verdict is about.
    """
    kind, report = facts.verdict.kind, facts.report
    rests_on = {"crash": report.crash, "deadlock": report.deadlocks, "orphaned-lock": report.deadlocks,
                "no-result": report.deadlocks,
                "standstill": report.deadlocks, "event-loop-blocked": facts.verdict.threads and facts.verdict.tasks,
                "stopped": report.target.stopped}
    if not rests_on.get(kind, kind in ("idle", "task-cycle", "greenlet-cycle", "unknown") or facts.verdict.threads):
        return (f"the document does not list what its verdict, {verdict_title(facts.verdict)}, is about",)
    return _SENTENCES.get(kind, _not_known)(facts)


def is_said(facts: Facts, thread: Thread) -> bool:
    """Whether the sentence says what a thread does, which it does of the first one at most."""
    return thread.number in facts.verdict.threads[:1] and plain(doing(facts, thread)) in plain(sentence(facts))


def some_threads(facts: Facts, numbers: Sequence[int]) -> Words:
    """Threads by name, or their numbers if there are many."""
    if len(numbers) <= MANY_THREADS:
        return listed([thread_name(facts, number) for number in numbers])
    return (number_list(sorted(numbers)),)


def _and_behind(facts: Facts) -> str:
    count, several = len(facts.verdict.behind), len(facts.verdict.threads) > 1
    return f"; {count:,} more {'is' if count == 1 else 'are'} stuck behind {'them' if several else 'it'}" \
        if count else ""


def _crash_sentence(facts: Facts) -> Words:
    from gdbext.narrate.crash import fault_text, rule_in_headline  # most reports are about no crash

    crash = facts.report.crash
    assert crash is not None
    return (f"{crash.fault.signal} in ", *thread_name(facts, crash.thread), f"{rule_in_headline(crash)}: ",
            fault_text(crash.fault, 300, "."))


def _stopped_sentence(facts: Facts) -> Words:
    assert facts.report.target.stopped is not None
    return stopped_by(facts.report.target.stopped)


def stopped_by(stopped: Stopped) -> Words:
    """What keeps a process from running."""
    if stopped.by == "tracer":
        tracer = f"process {stopped.pid}" if stopped.pid is not None else "a process of another PID namespace"
        return (tracer, *((' "', Foreign(stopped.name), '"') if stopped.name else ()),
                " traces the process and has stopped it")
    if stopped.by == "cgroup":
        return ("its cgroup", *((" ", Foreign(stopped.name.rpartition("/")[0], 300)) if stopped.name else ()),
                " is frozen")
    if stopped.name in _OF_TERMINAL:
        return (f"by {stopped.name}, since it {_OF_TERMINAL[stopped.name]} its terminal in the background; `fg` in its "
                "shell continues it",)
    return ("by ", Foreign(stopped.name) if stopped.name else "a signal")


def continuing(report: Report) -> str:
    """The command that lets a stopped process run again; empty if there is none."""
    stopped = report.target.stopped
    if stopped is None or stopped.by == "tracer" or stopped.by == "signal" and stopped.name in _OF_TERMINAL:
        return ""
    if stopped.by == "signal":
        return f"kill -CONT {report.target.pid}"
    if stopped.name is None:
        return ""
    container = _CONTAINER.search(stopped.name)
    if container is not None:
        return f"{'docker' if container[1] == 'docker' else 'podman'} unpause {container[2]}"
    thawed = "THAWED" if stopped.name.endswith("/freezer.state") else "0"
    return f"echo {thawed} > {shlex.quote(stopped.name)}"


def _deadlock_sentence(facts: Facts) -> Words:
    found = facts.report.deadlocks
    start = f"{len(found):,} deadlocks: " if len(found) > 1 else ""
    titles = [title(deadlock) for deadlock in found[:MANY_LOCKS]]
    more = f"; and {plural(len(found) - MANY_LOCKS, 'more deadlock')}" if len(found) > MANY_LOCKS else ""
    gone = next((_why_gone(lock) for deadlock in found if deadlock.owner_gone for edge in deadlock.edges
                 if (lock := facts.locks.get(edge.lock)) is not None and lock.orphan), None)
    why: Words = (" (", reason(gone), ")") if gone is not None and len(found) == 1 else ()
    return (start + "; ".join(titles) + more, *why, _and_behind(facts))


def _why_gone(lock: Lock) -> Reason | None:
    """What happened to the owner of a lock, or to who should make a result."""
    return parts(lock.why)[0] if lock.state == RESULT_PENDING and lock.why is not None else lock.orphan


def _standstill_sentence(facts: Facts) -> Words:
    (deadlock, *_) = facts.report.deadlocks
    count = len(deadlock.threads)
    waiting = _waiting_tasks(facts.report, deadlock)
    of_loops = {loop.thread for loop in facts.report.event_loops}
    at_work = any(thread.at_work is not None and thread.waits is not None and thread.number not in of_loops
                  for thread in facts.known(deadlock.threads))
    if waiting and not at_work:
        who = f"all {plural(count, 'thread')} wait" if count > 1 else "the only thread waits"
        return (*_tasks_wait(facts, waiting), f"; {who} for what only the process itself could do",
                *_not_at_rest(facts, deadlock))
    if count == 1:
        first = facts.threads.get(deadlock.threads[0])
        return (*thread_name(facts, deadlock.threads[0]), " ", *(doing(facts, first) if first is not None else ()),
                ", and no other thread exists")
    return (f"all {plural(count, 'thread')} wait for what only the others could do", *_most_telling(facts, deadlock),
            *_blocked_loop(facts, deadlock))


def _not_at_rest(facts: Facts, deadlock: Deadlock) -> Words:
    """A thread of a standstill that waits for a lock, not for its next work; empty if there is none."""
    for thread in facts.known(deadlock.threads):
        lock = facts.awaited(thread)
        if lock is not None and not lock.is_outside and not kind_of(lock.kind).is_event:
            return ("; ", *thread_name(facts, thread.number), " ", *doing(facts, thread))
    return ()


def _blocked_loop(facts: Facts, deadlock: Deadlock) -> Words:
    """The task that runs in a thread of a standstill, so that no other task of its event loop can run."""
    for task in facts.report.tasks:
        thread = facts.threads.get(task.thread) if task.thread is not None else None
        if task.state == "running" and thread is not None and thread.number in deadlock.threads:
            place = own_place(thread)
            where: Words = (" in ", Foreign(place, 200)) if place else ()
            return ("; task ", *task_name(task), " blocks the event loop of ", *thread_name(facts, thread.number),
                    *where)
    return ()


def _most_telling(facts: Facts, deadlock: Deadlock) -> Words:
    """One wait of a standstill: behind no thread and in the middle of work, and not for the end of a thread."""
    waiting = [(thread, lock) for thread in facts.known(deadlock.threads) if thread.waits is not None
               and (lock := facts.locks.get(thread.waits.lock)) is not None
               and kind_of(lock.kind).behaviour != "thread-end"]
    if not waiting:
        return ()
    thread, lock = min(waiting, key=lambda each: _how_telling(*each))
    place = own_place(thread)
    where: Words = (" in ", Foreign(place, 200)) if place else ()
    holder = lock.holders[0].thread if lock.holders else None
    held: Words = (", held by ", *thread_name(facts, holder)) if holder is not None else ()
    # a condition variable of native code says little
    more = next((other for other, wanted in waiting if wanted.is_outside and other is not thread), None)
    also: Words = ("; ", *thread_name(facts, more.number), " ", *doing(facts, more)) \
        if more is not None and holder is None and lock.kind == CONDVAR else ()
    return ("; ", *thread_name(facts, thread.number), " waits for ", *short_lock(facts, lock.id), *where, *held, *also)


def _how_telling(thread: Thread, lock: Lock) -> tuple[int, bool, bool, int]:
    """Orders waits: the most telling one is the least."""
    work = int(thread.at_work.is_module) if thread.at_work is not None else 2 if thread.in_loop is not None else 3
    return work, lock.is_outside, bool(lock.holders), thread.number


def _waiting_tasks(report: Report, deadlock: Deadlock) -> list[int]:
    """The tasks whose event loops are in a standstill, those first that wait for something else than for tasks."""
    loops = {loop.address for loop in report.event_loops if loop.thread in deadlock.threads}
    waiting = [task for task in report.tasks if task.loop in loops and task.state == "pending" and task.awaits.kind]
    return [task.address for task in sorted(waiting, key=lambda task: bool(task.awaits.tasks))]


def _tasks_sentence(facts: Facts) -> Words:
    count, more = len(facts.verdict.tasks), len(facts.report.task_cycles) - 1
    library = "trio" if any(loop.kind == "trio" for loop in facts.report.event_loops) else "asyncio"
    return ("a task waits for itself" if count == 1 else f"{count:,} {library} tasks wait for each other",
            f"; and {plural(more, 'more cycle')} of tasks" if more > 0 else "")


def _greenlets_sentence(facts: Facts) -> Words:
    count, more = len(facts.verdict.greenlets), len(facts.report.greenlet_cycles) - 1
    return ("a greenlet waits for itself" if count == 1 else f"{count:,} greenlets wait for each other",
            f"; and {plural(more, 'more cycle')} of greenlets" if more > 0 else "")


def _loop_sentence(facts: Facts) -> Words:
    task, others = facts.tasks.get(facts.verdict.tasks[0]), len(facts.verdict.tasks) - 1
    name: Words = ("task ", *task_name(task)) if task is not None else ("a task",)
    more = f", and {plural(others, 'other task')} cannot run" if others else ""
    return (*name, f" blocks its event loop{more}: ", *_first(facts))


def _first(facts: Facts) -> Words:
    """The first thread of the verdict, and what it does."""
    number = facts.verdict.threads[0]
    thread = facts.threads.get(number)
    return (*thread_name(facts, number), *((" ", *doing(facts, thread)) if thread is not None else ()))


def _tasks_wait(facts: Facts, addresses: Sequence[int]) -> Words:
    """The first of some tasks with its wait, and how many others wait."""
    task, more = facts.tasks.get(addresses[0]), len(addresses) - 1
    words: Words = ("task ", *task_name(task), " ", *task_doing(facts, task, below=False)) if task is not None else (
        "a task waits",)
    return (*words, f"; {plural(more, 'more task')} wait{'s' if more == 1 else ''}" if more else "")


def _behind_sentence(facts: Facts) -> Words:
    if facts.verdict.greenlets:
        return _greenlet_behind_sentence(facts)
    pool = _pool_awaited(facts)
    if pool is not None:
        return pool
    if facts.verdict.tasks:
        return (*_tasks_wait(facts, facts.verdict.tasks), ", and nothing else is scheduled in the event loop of ",
                *thread_name(facts, facts.verdict.threads[0]))
    count = len(facts.verdict.behind)
    thread = facts.threads.get(facts.verdict.threads[0])
    more = len(facts.verdict.threads) - 1
    alike = f"; {plural(more, 'more thread')} wait{'s' if more == 1 else ''} like that" if more else ""
    if not count or thread is None:
        return (*_first(facts), *_in_work(facts, thread), alike)
    # only what these threads wait for: it may hold more
    wanted = {waits.lock for other in facts.known(facts.verdict.behind) if (waits := other.waits) is not None}
    held = [words for hold in thread.holds if hold.lock in wanted and (words := holding(facts, hold, why=False))]
    having = f"{holds(facts, thread.holds[0])} " if held else ""
    return (f"{plural(count, 'thread')} wait{'s' if count == 1 else ''} behind ", *thread_name(facts, thread.number),
            ", which ", *((having, *listed(held[:_MANY_HELD]), " and ") if held else ()),
            *(_polls(thread.polling) if thread.polling is not None else doing(facts, thread)),
            *_in_work(facts, thread), alike)


def _pool_awaited(facts: Facts) -> Words | None:
    """The thread or task that waits for a free connection of a pool; None if the verdict is about another wait."""
    verdict = facts.verdict
    task = facts.tasks.get(verdict.tasks[0]) if verdict.tasks else None
    thread = facts.threads.get(verdict.threads[0])
    stack = task.stack if task is not None else thread.stack if thread is not None and not verdict.tasks else ()
    pool = pool_of(stack)
    if pool is None or task is None and (thread is None or verdict.behind or not thread.waits):
        return None
    name: Words = ("task ", *task_name(task)) if task is not None else thread_name(facts, verdict.threads[0])
    place = next((frame for frame in stack if isinstance(frame, PyFrame) and library_of(frame) is None), None)
    where: Words = () if place is None else (
        " in ", Foreign(place.function, 120), " ", Foreign(f"{place.file.rpartition('/')[2]}:{place.line}", 120))
    more = len(verdict.tasks or verdict.threads) - 1
    alike = f"; {plural(more, 'task' if task is not None else 'thread')} more wait{'s' if more == 1 else ''}" \
        if more else ""
    return (*name, " waits for a free connection of the pool of ", Foreign(pool, 60), *where,
            ", and all of them are in use", alike)


def _job_sentence(facts: Facts) -> Words:
    """The operation that other ranks have to take part in."""
    report, thread = facts.report, facts.threads.get(facts.verdict.threads[0])
    lock = facts.awaited(thread) if thread is not None else None
    pending = [(each.begun, each, group) for group in (report.rank.groups if report.rank is not None else ())
               for each in group.pending if each.begun is not None]
    if lock is not None and kind_of(lock.kind).of_ranks or not pending:
        return _behind_sentence(facts)
    begun, operation, group = min(pending, key=lambda each: each[0])
    since = f"{report.target.time - begun:.0f} s ago" if report.target.time is not None else "before"
    return (Foreign(operation_name(operation, group.label), 200),
            f" was called {since} and has not ended: it ends when the other ranks of the group take part")


def _in_work(facts: Facts, thread: Thread | None) -> Words:
    """The function in the middle of which a thread waits for other threads of its process."""
    lock = facts.locks.get(thread.waits.lock) if thread is not None and thread.waits is not None else None
    if thread is None or thread.at_work is None or lock is None or (
            lock.is_outside or thread.at_work.is_module):
        return ()
    frame = thread.at_work
    return (", in the middle of ", Foreign(frame.function, 120), " ", Foreign(frame.file.rpartition("/")[2], 120))


def _greenlet_behind_sentence(facts: Facts) -> Words:
    """The greenlet that has a lock and waits for something outside, and those that wait behind it."""
    first, count = facts.greenlets.get(facts.verdict.greenlets[0]), len(facts.verdict.greenlets) - 1
    words: Words = (*greenlet_name(first), " ", *greenlet_doing(facts, first)) if first is not None else ("a greenlet",)
    return (f"{plural(count, 'greenlet')} wait{'s' if count == 1 else ''} behind another: ", *words)


def _pool_sentence(facts: Facts) -> Words:
    workers = facts.verdict.threads
    if len(workers) == 1:
        return ("the only worker of a pool, ", *thread_name(facts, workers[0]),
                ", waits for a result, and no worker is left to make it", *_queued_calls(facts))
    return (f"all {len(workers):,} workers of the pool wait for results, and no worker is left to make them",
            *_queued_calls(facts))


def _queued_calls(facts: Facts) -> Words:
    """The calls that are queued behind the workers of a pool; empty if they are not known."""
    locks = {waits.lock: facts.locks.get(waits.lock) for thread in facts.known(facts.verdict.threads)
             if (waits := thread.waits) is not None}
    queued = [why for lock in locks.values() if lock is not None for why in find_reasons(lock.why, "call-is-queued")]
    if not queued:
        return ()
    # workers of one pool find the same calls in its queue
    found = dict(queued[0].arguments)
    count, functions = found.get("queued"), found.get("functions")
    if not isinstance(count, int) or not isinstance(functions, tuple):
        return ()
    names: list[Words] = [(Foreign(name, 80),) for name in functions if isinstance(name, str)]
    return (f"; {plural(count, 'call')} {'is' if count == 1 else 'are'} queued behind "
            f"{'it' if len(facts.verdict.threads) == 1 else 'them'}", *((": ", *listed(names)) if names else ()))


def _polling_sentence(facts: Facts) -> Words:
    number = facts.verdict.threads[0]
    thread = facts.threads.get(number)
    return (*thread_name(facts, number), " ", *_polls(thread.polling if thread is not None else None),
            _and_behind(facts))


def _polls(polling: Polling | None) -> Words:
    """``sleeps again and again for 0.1 s, until the condition of a loop holds, in wait_for_file job.py:12``."""
    if polling is None:
        return ("sleeps again and again",)
    frame, seconds = polling.frame, polling.seconds
    return ("sleeps again and again", f" for {seconds:g} s" if seconds else "",
            ", until the condition of a loop holds, ", *_values(polling), "in ", Foreign(frame.function, 120), " ",
            Foreign(frame.file.rpartition("/")[2], 120), f":{frame.line if frame.line is not None else '?'}")


def _values(polling: Polling) -> Words:
    """``with ready = False and path = 'job.lock', ``; empty if no values are known."""
    shown: list[Words] = [(Foreign(each.name, 60), " = ", Foreign(each.value, 100)) for each in polling.values]
    return ("with ", *listed(shown), ", ") if shown else ()


def _computing_sentence(facts: Facts) -> Words:
    numbers = facts.verdict.threads
    thread = facts.threads.get(numbers[0])
    place = own_place(thread) if thread is not None else None
    where: Words = (" in ", Foreign(place, 200)) if place else ()
    does: Words = (" runs", *where)
    if thread is not None and thread.blocked_on is not None:
        does = (" ", *doing(facts, thread), *((", called" if place else "",)), *where)
    more = f"; {plural(len(numbers) - 1, 'other thread')} run{'s' if len(numbers) == 2 else ''} too" \
        if len(numbers) > 1 else ""
    behind = len(facts.verdict.behind)
    waiting = f"; {plural(behind, 'thread')} wait{'s' if behind == 1 else ''} for it" if behind else ""
    return ("no deadlock found; ", *thread_name(facts, numbers[0]), *does, waiting, more)


def _idle_sentence(facts: Facts) -> Words:
    threads = facts.report.threads
    if len(threads) == 1:
        return ("the only thread ", *doing(facts, threads[0]))
    return (f"no deadlock found; all {len(threads):,} threads wait for work, for input, or for time to pass",)


def _not_known(facts: Facts) -> Words:
    report, numbers = facts.report, facts.verdict.threads
    if report.no_verdict is not None:
        return undecided(report)
    if facts.verdict.greenlets:
        first, more = facts.greenlets.get(facts.verdict.greenlets[0]), len(facts.verdict.greenlets) - 1
        words: Words = (*greenlet_name(first), " ", *greenlet_doing(facts, first)) if first is not None else (
            "a greenlet waits for a lock",)
        return (*words, f"; {plural(more, 'more greenlet')} wait{'s' if more == 1 else ''} for such a lock"
                if more else "")
    if not numbers:
        return ("no thread could be read",) if not report.threads else ("the cause cannot be determined",)
    if facts.verdict.evidence is not None:
        return (*_first(facts), "; only threads of the process could end the waits of its ",
                plural(len(numbers), "thread"), ", or handlers of signals, which a core does not record")
    waiting = [number for number in numbers if (thread := facts.threads.get(number)) is not None and thread.waits]
    if not waiting:
        if len(numbers) == 1:
            return _first(facts)
        return (f"it is not known what {plural(len(numbers), 'thread')} do: ", *some_threads(facts, numbers))
    more = len(waiting) - 1
    return (*_first(facts), f"; {plural(more, 'more thread')} wait{'s' if more == 1 else ''} for such a lock"
            if more else "", "; its holder is not known")


_SENTENCES: Mapping[str, Callable[[Facts], Words]] = {
    "crash": _crash_sentence, "stopped": _stopped_sentence, "deadlock": _deadlock_sentence,
    "orphaned-lock": _deadlock_sentence, "no-result": _deadlock_sentence, "standstill": _standstill_sentence,
    "task-cycle": _tasks_sentence,
    "greenlet-cycle": _greenlets_sentence, "event-loop-blocked": _loop_sentence,
    "job": _job_sentence,
    "blocked-behind": _behind_sentence, "children": _behind_sentence, "pool": _pool_sentence, "queue": _behind_sentence,
    "polling": _polling_sentence, "computing": _computing_sentence, "idle": _idle_sentence,
}


def undecided(report: Report) -> Words:
    """The verdict "cannot be determined", and the reason."""
    assert report.no_verdict is not None
    return ("whether there is a deadlock cannot be determined (", reason(report.no_verdict), ")")
