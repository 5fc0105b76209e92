"""Tasks of asyncio as text: a tree for each event loop, in which a task stands above what it waits for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gdbext.model import EventLoop, Report, Task
from gdbext.render.escape import printable
from gdbext.render.text import TextRenderer

#: How many names a list shows before it says how many more there are.
_MANY = 8
#: How deep the tree is indented at most; deeper tasks stand as deep as this.
_DEEPEST = 24


class TaskTree:
    """The tree of one report.

    :param stacks: ``full``, ``top`` (the first frames only) or ``none``.
    """

    def __init__(self, report: Report, text: TextRenderer, stacks: str) -> None:
        self._report = report
        self._style, self._stack, self._thread_name = text.style, text.stack, text.thread_name
        self._thread_doing = text.doing
        self._limit = {"full": None, "top": 3, "none": 0}[stacks]
        self._tasks = {task.address: task for task in report.tasks}
        self._shown: set[int] = set()
        self._in_cycle = {address for cycle in report.task_cycles for address in cycle}

    def render(self) -> str:
        """All loops with their tasks, then the circles of tasks that wait for one another."""
        lines: list[str] = []
        by_loop: dict[int, list[Task]] = {}
        for task in self._report.tasks:
            by_loop.setdefault(task.loop, []).append(task)
        for loop in self._report.event_loops:
            lines += self._loop(loop, by_loop.get(loop.address, ()))
        if not self._report.event_loops:
            lines.append("No event loop of asyncio runs or has tasks.")
        for cycle in self._report.task_cycles:
            lines.append(self._cycle([self._tasks[address] for address in cycle]))
        return "\n".join(lines) + "\n"

    def _loop(self, loop: EventLoop, tasks: Sequence[Task]) -> list[str]:
        where = f"runs in {self._thread_name(loop.thread)}" if loop.thread is not None else "does not run"
        count = f"{len(tasks)} task{'s' if len(tasks) != 1 else ''}" if tasks else "no tasks"
        heading = self._style.mark(f"Event loop {loop.address:#x} ({printable(loop.kind, 80)})", "name")
        lines = [f"{heading} {where}: {count}"]
        # first those that nobody waits for; what is left then is in a circle, or behind one of another loop
        for chosen in ([task for task in tasks if not task.awaited_by], tasks):
            lines += self._level([task for task in chosen if task.address not in self._shown])
        return [*lines, ""]

    def _level(self, tasks: Sequence[Task]) -> list[str]:
        lines: list[str] = []
        waiting = [(group, 1) for group in self._grouped(tasks)][::-1]
        while waiting:
            group, depth = waiting.pop()
            group = [task for task in group if task.address not in self._shown]
            if not group:
                continue
            self._shown.update(task.address for task in group)
            below = [self._tasks[address] for address in group[0].awaits.tasks]
            again = [task for task in below if task.address in self._shown]
            indent = "  " * min(depth, _DEEPEST)
            lines += [indent + line for line in self._group(group, again)]
            new = [task for task in below if task.address not in self._shown]
            waiting += [(following, depth + 1) for following in self._grouped(new)][::-1]
        return lines

    @staticmethod
    def _grouped(tasks: Iterable[Task]) -> list[list[Task]]:
        """Tasks that stand at the same place, wait for no other task and are told in one breath; others alone."""
        groups: dict[object, list[Task]] = {}
        for task in tasks:
            awaits = task.awaits
            alone = awaits.tasks or task.state == "running"
            key = (task.address,) if alone else (task.stack, task.state, awaits.kind, awaits.name, awaits.holders)
            groups.setdefault(key, []).append(task)
        return list(groups.values())

    def _group(self, group: Sequence[Task], again: Sequence[Task]) -> list[str]:
        first = group[0]
        if len(group) == 1:
            heading = f"Task {self._label(first)} {self._doing(first, len(again))}"
        else:
            heading = f"{len(group)} tasks {self._names(group)}: each {self._doing(first, 0, group)}"
        if again:
            word = "in a circle" if self._in_cycle & {task.address for task in again} else "told above"
            heading += f"; {self._names(again)} {word}"
        frames = self._stack(first.stack, self._limit) if self._limit != 0 else []
        return [heading, *("  " + line for line in frames)]

    def _doing(self, task: Task, again: int, group: Sequence[Task] = ()) -> str:
        awaits = task.awaits
        if task.state == "running":
            thread = self._report.thread(task.thread) if task.thread is not None else None
            return f"runs; its thread {self._thread_doing(thread)}" if thread is not None else "runs"
        if task.state != "pending":
            return f"is {task.state}"
        timed = ", with a timeout" if awaits.timed else ""
        others = f" and {awaits.others} other future{'s' if awaits.others != 1 else ''}" if awaits.others else ""
        if awaits.tasks:
            count = len(awaits.tasks)
            this = "the task below" if count == 1 and not again else f"{count} task{'s' if count != 1 else ''}"
            kind = f" ({printable(awaits.kind, 80)})" if awaits.kind else ""
            return f"waits for {this}{others}{kind}{timed}"
        if awaits.kind is None:
            return "is ready to run"
        if awaits.kind == "asyncio.sleep":
            return "sleeps"
        if len({other.awaits.address for other in group}) > 1:
            return f"waits for another {printable(awaits.kind, 80)}{timed}"
        held = ""
        if awaits.holders:
            held = f", held by {self._names([self._tasks[address] for address in awaits.holders])}"
        return f"waits for {self._style.mark(printable(awaits.what or '', 200), 'lock')}{held}{timed}"

    def _names(self, tasks: Sequence[Task]) -> str:
        shown = ", ".join(self._label(task) for task in tasks[:_MANY])
        return shown + (f" and {len(tasks) - _MANY} more" if len(tasks) > _MANY else "")

    @staticmethod
    def _label(task: Task) -> str:
        return (f'"{printable(task.name, 60)}" ' if task.name is not None else "") + f"{task.address:#x}"

    def _cycle(self, tasks: Sequence[Task]) -> str:
        ring = " -> ".join(self._label(task) for task in [*tasks[:_MANY], *tasks[:1]])
        more = f" ({len(tasks) - _MANY} more between)" if len(tasks) > _MANY else ""
        heading = self._style.mark("Circle of tasks", "bad")
        if len(tasks) == 1:
            return f"{heading}: {self._label(tasks[0])} waits for itself; it goes on only if it is cancelled."
        return (f"{heading} that wait for one another, without a timeout: {ring}{more}; they go on only if one of them "
                "is cancelled.")
