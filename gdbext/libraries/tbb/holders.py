"""Which threads run a task of oneTBB that a thread waits for: those that have a call of the task on their stacks.

The library calls ``execute`` of a task. The frame of that function proves that the task has not ended, unless it has
called the library for the end of the task. The task is the function's first argument, and leads to the wait.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from gdbext.libraries.tbb.decoding import find_wait_of_task
from gdbext.libraries.tbb.waits import is_tbb, waiting_function
from gdbext.locks.library_parts import LibraryHolders
from gdbext.locks.scene import Scene
from gdbext.locks.seen import Known, SeenLock
from gdbext.model import DERIVED, EXCLUSIVE, Holder
from gdbext.model.reasons import Reason, because
from gdbext.threads.threads import SeenThread

#: Most frames of one thread that are examined.
_MAX_FRAMES = 256


class TbbTasks(LibraryHolders):
    """The tasks that threads run. They are searched only when a thread waits for tasks."""

    def find(self, lock: SeenLock, waiters: Collection[int]) -> SeenLock:
        """The threads that run a task which the wait needs."""
        found = self.threads_running(lock.address)
        holders = tuple([Holder(number, EXCLUSIVE, DERIVED, why) for number, why in found.items()])
        return replace(lock, held=Known(holders))

    def threads_running(self, wait: int) -> Mapping[int, Reason]:
        """The numbers of the threads that run a task which a wait needs, each with the reason.

        :param wait: ``wait_context *``.
        """
        return self._running.get(wait, {})

    @cached_property
    def _running(self) -> Mapping[int, Mapping[int, Reason]]:
        """By wait: what `threads_running` returns.

        A thread that is not inside a system call may be about to end its task, so it does not count.
        """
        found: dict[int, dict[int, Reason]] = {}
        for seen in self._scene.threads:
            if seen.unavailable is None and seen.call is not None and seen.call.blocked:
                for wait, module in self._waits_of(seen):
                    found.setdefault(wait, {}).setdefault(seen.number, because("tbb-runs-task", module=module))
        return found

    def _waits_of(self, seen: SeenThread) -> Iterator[tuple[int, str]]:
        """The wait of each task that a thread runs, and the name of the library that has called the task."""
        code = self._scene.code
        native = seen.native(code)
        for index in range(1, min(len(native) - 1, _MAX_FRAMES)):
            outer = code.module(native[index + 1][0])
            if outer is None or not is_tbb(outer) or is_tbb(code.module(native[index][0])):
                continue
            call = None if _may_have_ended(self._scene, native, index) else self._holding.call_of(seen, index)
            wait = find_wait_of_task(self._scene.memory, call.argument, call.function) if call is not None else None
            if wait is not None:
                yield wait, outer.name


def _may_have_ended(scene: Scene, native: Sequence[tuple[int, int]], index: int) -> bool:
    """Whether the function of a frame may be about to end its task: it is in the library, but does not wait there."""
    code = scene.code
    inner = next((i for i in range(index - 1, -1, -1) if is_tbb(code.module(native[i][0]))), None)
    if inner is None:
        return False
    called = code.cpu.called(scene.memory, native[inner + 1][0])
    return called is None or waiting_function(code.symbol(called).function) is None

HOLDERS = TbbTasks
