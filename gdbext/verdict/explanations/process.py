"""Explanations by the state of the process: it has died, it is stopped, it polls, it computes."""

from __future__ import annotations

from gdbext.model import INFERRED, RECORDED, Fault
from gdbext.model.verdict import Verdict
from gdbext.verdict.scene import Scene


def crash(scene: Scene) -> Verdict | None:
    """A crash, unless the signal was sent: a program may have been stopped because it hung."""
    crash = scene.report.crash
    return died(scene) if crash is not None and crash.fault.kind != "sent" else None


def died(scene: Scene) -> Verdict | None:
    """A crash, unless another process sent the signal: that says nothing about the program."""
    crash = scene.report.crash
    if crash is None or crash.fault.kind == "sent" and _sent_by_another(crash.fault, scene.report.target.pid):
        return None
    return Verdict("crash", (crash.thread,), evidence=crash.fault.evidence)


def _sent_by_another(fault: Fault, pid: int) -> bool:
    # the kernel records no sender from another PID namespace; a signal without a code was raised in a handler
    return fault.sender[0] != pid if fault.sender is not None else fault.code is not None


def stopped(scene: Scene) -> Verdict | None:
    """Something keeps the process from running, and no proof says that it would hang without that."""
    report = scene.report
    if report.target.stopped is None or report.task_cycles or report.greenlet_cycles or any(
            each.evidence != INFERRED and not each.standstill for each in report.deadlocks):
        return None
    return Verdict("stopped", evidence=RECORDED)


def polling(scene: Scene) -> Verdict | None:
    """A thread sleeps again and again until a condition holds, and it is alone, or others have waited for it.

    No other thread is in the middle of work.
    """
    for thread in scene.report.threads:
        behind = scene.behind(thread.number)
        others = [other for other in scene.report.threads if other is not thread and other.number not in behind]
        awaited = any(scene.has_waited(scene.threads[number]) for number in behind)
        if thread.polling is not None and not scene.running and (awaited or not (behind or others)) and not any(
                other.at_work is not None or other.polling is not None for other in others):
            return Verdict("polling", (thread.number,), tuple(behind))
    return None


def computing(scene: Scene) -> Verdict | None:
    """Threads run, or wait for work that a GPU does; first the one that most others wait for."""
    busy = {*scene.running, *scene.offloaded}
    if not busy:
        return None
    order = sorted(busy, key=lambda number: (-len(scene.behind(number)), number))
    return Verdict("computing", tuple(order), tuple(scene.behind(order[0])))
