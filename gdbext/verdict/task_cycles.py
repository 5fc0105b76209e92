"""Cycles of tasks of asyncio, and of greenlets, that wait for one another. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from gdbext.model import Greenlet, Task
from gdbext.verdict.graph import find_circles


def find_task_cycles(tasks: Sequence[Task]) -> tuple[tuple[int, ...], ...]:
    """Cycles of tasks each of which waits, without a timeout, only for the next one or for others that are stuck.

    A task can continue when one of those that it waits for can: of several the first may end the wait, with its result
    or by its failure. What remains without all that can continue only ends when a task is cancelled.
    """
    needs = {task.address: {*task.awaits.tasks, *task.awaits.holders} for task in tasks
             if task.state == "pending" and not task.awaits.timed and not task.awaits.others}
    return find_circles(needs)


def find_greenlet_cycles(greenlets: Sequence[Greenlet]) -> tuple[tuple[int, ...], ...]:
    """Cycles of greenlets each of which waits, without a timeout, only for the next one or for others that are stuck.

    What remains without all that can continue only ends when a greenlet is killed.
    """
    return find_circles({each.address: {*each.waits.greenlets, *each.waits.holders} for each in greenlets
                         if each.waits is not None and not each.waits.timed and not each.waits.others})
