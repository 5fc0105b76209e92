"""Tasks of trio with their coroutines, nurseries and deadlines, and the event loop (`Runner`) of a thread.

These are objects of classes written in Python, whose attributes are in `__slots__`.

Sources: trio 0.22, 0.27 and 0.35 trio/_core/_run.py, trio/_core/_entry_queue.py.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping, Sequence

from gdbext.cpython.frames import FrameReader, RawFrame
from gdbext.cpython.generators import Generators
from gdbext.cpython.objects import Objects
from gdbext.cpython.values import ValueReader
from gdbext.inferior.protocol import Memory
from gdbext.layout.table import Layouts
from gdbext.model.frames import library_of
from gdbext.record import record

#: Largest number of tasks of one loop and of children of one task, and of cancel scopes around a task.
MAX_TASKS = 100_000
_MAX_SCOPES = 1_000
#: Functions of trio that run a loop; each has the loop in a variable.
_RUN = frozenset(("run", "unrolled_run"))
TRIO = "trio"


@record
class TrioTask:
    """A task of trio; addresses are ``PyObject *``.

    `children` are the tasks in its nurseries, by nursery. A task that is `scheduled` is about to run. `timed`: it is
    inside of a cancel scope with a deadline.
    """

    address: int
    name: str | None
    coroutine: int
    children: Mapping[int, Sequence[int]]
    scheduled: bool
    timed: bool


class TrioReader:
    """Reads trio in one runtime."""

    def __init__(self, memory: Memory, layouts: Layouts, objects: Objects, frames: FrameReader) -> None:
        self._objects = objects
        self._frames = frames
        self._values = ValueReader(memory, layouts, objects)
        self.generators = Generators(memory, layouts, objects, frames)

    def runner(self, stack: Sequence[RawFrame]) -> int | None:
        """The loop (``PyObject *``) that a thread with this stack runs, or None."""
        for raw in stack:
            if raw.frame.function in _RUN and library_of(raw.frame) == TRIO:
                found = self._frames.variable(raw, "runner")
                if found and self._is_a(found, "Runner"):
                    return found
        return None

    def tasks(self, runner: int) -> Iterator[int]:
        """The tasks of a loop (``PyObject *``), except those with which trio starts, at most `MAX_TASKS`."""
        values = dict(self._values.attributes(runner))
        first = values.get("init_task", 0)
        for task in self._objects.set_items(values["tasks"], MAX_TASKS) if "tasks" in values else ():
            if task and task != first and self._is_a(task, "Task"):
                yield task

    def task(self, address: int) -> TrioTask:
        """Decode a task (``PyObject *``).

        :raises GdbextError: it is damaged.
        """
        values = dict(self._values.attributes(address))
        name, coroutine = values.get("name"), values.get("coro", 0)
        children = {}
        nurseries = values.get("_child_nurseries")
        for nursery in self._objects.list_start(nurseries, MAX_TASKS) if nurseries else ():
            members = dict(self._values.attributes(nursery)).get("_children")
            children[nursery] = tuple(self._objects.set_items(members, MAX_TASKS)) if members else ()
        return TrioTask(address, self._objects.string(name) if name else None, coroutine, children,
                        not self._is_none(values.get("_next_send_fn")), self._has_deadline(values))

    def attributes(self, address: int) -> dict[str, int]:
        """The attributes of an object of trio, by name."""
        return dict(self._values.attributes(address))

    def _has_deadline(self, task: Mapping[str, int]) -> bool:
        status = task.get("_cancel_status")
        for _ in range(_MAX_SCOPES):
            if status is None or self._is_none(status):
                return False
            values = dict(self._values.attributes(status))
            scope = dict(self._values.attributes(values["_scope"])) if "_scope" in values else {}
            if any(math.isfinite(self._double(scope[name])) for name in ("_deadline", "_registered_deadline")
                   if name in scope):
                return True
            status = values.get("_parent")
        return True  # not known

    def _double(self, address: int) -> float:
        kind = self._objects.type_name(address)
        if kind == "int":
            return 0.0  # a deadline of any value
        if kind != "float":
            return math.inf
        value: float = struct.unpack("<d", struct.pack("<Q", self._objects.read_member(
            "PyFloatObject", address, "ob_fval")))[0]
        return value

    def _is_a(self, address: int, name: str) -> bool:
        return name in self._objects.type_names(address)

    def _is_none(self, address: int | None) -> bool:
        return not address or self._is_a(address, "NoneType")
