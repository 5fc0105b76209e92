"""Reasons why there is no verdict: something is not known that could change it."""

from __future__ import annotations

from gdbext.model import INFERRED, RESULT_STATES
from gdbext.model.kinds import kind_of
from gdbext.model.verdict import Verdict
from gdbext.verdict.scene import Scene, takes_work
from gdbext.verdict.wait_for import find_standstill


def not_judged(scene: Scene) -> Verdict | None:
    """The report says why it has no verdict."""
    return Verdict("unknown") if scene.report.no_verdict is not None else None


def unknown_holder(scene: Scene) -> Verdict | None:
    """A thread waits for a locked lock whose holder is not known, and no thread runs that could release it."""
    if scene.running:
        return None
    numbers = []
    for thread in scene.report.threads:
        lock = scene.lock(thread)
        if (lock is not None and thread.waits is not None and not thread.waits.timed and lock.state != "free"
                and not lock.holders and not lock.is_event and not kind_of(lock.kind).passed_on
                and lock.state not in RESULT_STATES and not takes_work(thread)):
            numbers.append(thread.number)
    return Verdict("unknown", tuple(numbers)) if numbers else None


def unknown_greenlet(scene: Scene) -> Verdict | None:
    """Greenlets wait for locks whose holders are not known, and no thread runs that could release them."""
    if scene.running:
        return None
    found = [each.address for each in scene.report.greenlets if each.waits is not None and each.waits.locked
             and not each.waits.timed and not each.waits.holders]
    return Verdict("unknown", greenlets=tuple(found)) if found else None


def only_threads_could_wake(scene: Scene) -> Verdict | None:
    """In a core, every thread waits for something that only threads of the process or handlers of signals could do.

    A core does not record which signals have handlers in C.
    """
    report = scene.report
    if report.target.kind != "core" or scene.first is None:
        return None
    found = find_standstill(report.threads, report.locks, scene.first)
    return Verdict("unknown", found.threads, evidence=INFERRED) if found is not None else None


def unreadable(scene: Scene) -> Verdict | None:
    """It is not known what some threads do, or no thread is known."""
    unread = [thread.number for thread in scene.report.threads
              if thread.status == "unknown" and thread.waits is None
              # a worker that may have been blocked in a call has a reason to be there
              and (thread.blocked_on is None or thread.number == scene.first)]
    return Verdict("unknown", tuple(unread)) if unread or not scene.threads else None
