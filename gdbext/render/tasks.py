"""asyncio tasks as text: a tree for each event loop, with each task above the tasks that it awaits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gdbext.model import EventLoop, Report, Task
from gdbext.narrate import tasks
from gdbext.narrate.names import Facts
from gdbext.narrate.words import plural
from gdbext.render.escape import Safe, as_text
from gdbext.render.text import TextRenderer

#: The maximum indentation of the tree, in levels.
_DEEPEST = 24


class TaskTree:
    """The tree of one report.

    :param stacks: ``full``, ``top`` (the first frames only) or ``none``.
    """

    def __init__(self, report: Report, text: TextRenderer, stacks: str) -> None:
        self._facts = Facts(report)
        self._say, self._stack = text.say, text.stack
        self._limit = {"full": None, "top": 3, "none": 0}[stacks]
        self._shown: set[int] = set()
        self._in_cycle = {address for cycle in report.task_cycles for address in cycle}

    def render(self) -> Safe:
        """All event loops with their tasks; cycles of tasks are part of the verdict."""
        lines: list[str] = []
        by_loop: dict[int, list[Task]] = {}
        for task in self._facts.report.tasks:
            by_loop.setdefault(task.loop, []).append(task)
        for loop in self._facts.report.event_loops:
            lines += self._loop(loop, by_loop.get(loop.address, ()))
        if not self._facts.report.event_loops:
            lines.append(tasks.NO_LOOPS)
        return as_text(lines)

    def _loop(self, loop: EventLoop, own: Sequence[Task]) -> list[str]:
        count = plural(len(own), "task") if own else "no tasks"
        lines = [self._say((*tasks.loop_name(loop), " ", *tasks.loop_thread(self._facts, loop), f": {count}"))]
        # first the tasks that no task awaits; the rest is in a cycle or awaited by a task of another loop
        for chosen in ([task for task in own if not task.awaited_by], own):
            lines += self._level([task for task in chosen if task.address not in self._shown])
        return [*lines, ""]

    def _level(self, level: Sequence[Task]) -> list[str]:
        lines: list[str] = []
        waiting = [(group, 1) for group in self._grouped(level)][::-1]
        while waiting:
            group, depth = waiting.pop()
            group = [task for task in group if task.address not in self._shown]
            if not group:
                continue
            self._shown.update(task.address for task in group)
            below = [self._facts.tasks[address] for address in group[0].awaits.tasks]
            again = [task for task in below if task.address in self._shown]
            indent = "  " * min(depth, _DEEPEST)
            lines += [indent + line for line in self._group(group, again)]
            new = [task for task in below if task.address not in self._shown]
            waiting += [(following, depth + 1) for following in self._grouped(new)][::-1]
        return lines

    @staticmethod
    def _grouped(level: Iterable[Task]) -> list[list[Task]]:
        """Group tasks by stack and wait; tasks that run or await other tasks stay alone."""
        groups: dict[object, list[Task]] = {}
        for task in level:
            awaits = task.awaits
            alone = awaits.tasks or task.state == "running"
            key = (task.address,) if alone else (task.stack, task.state, awaits.kind, awaits.name, awaits.holders)
            groups.setdefault(key, []).append(task)
        return list(groups.values())

    def _group(self, group: Sequence[Task], again: Sequence[Task]) -> list[str]:
        first = group[0]
        if len(group) == 1:
            words = ("Task ", *tasks.task_name(first), " ", *tasks.doing(self._facts, first, bool(again)))
        else:
            words = (f"{len(group):,} tasks ", *tasks.task_list(group), ": each ",
                     *tasks.doing(self._facts, first, group=group))
        if again:
            word = "in a cycle" if self._in_cycle & {task.address for task in again} else "shown above"
            words = (*words, "; ", *tasks.task_list(again), f" {word}")
        frames = self._stack(first.stack, self._limit) if self._limit != 0 else []
        return [self._say(words), *("  " + line for line in frames)]
