"""Decodes the pools of `concurrent.futures`: the calls that they run or keep in their queues, and their workers.

Source: CPython 3.13 Lib/concurrent/futures/{_base,thread,process}.py.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from gdbext.cpython.frames import RawFrame
from gdbext.cpython.pools.queues import MAX_QUEUED, QueueReader
from gdbext.model.standard_library import is_in, role_of
from gdbext.record import record

#: Most workers of one pool.
_MAX_WORKERS = 4096


@record
class Call:
    """A call that was submitted to a pool: its future (``PyObject *``), and the name of its function if it has one."""

    future: int
    function: str | None


@record
class Workers:
    """The workers of a pool of threads.

    `queue` contains the calls that no worker has taken yet (``PyObject *``). `idents` are the ``pthread_self()`` of the
    workers that have not ended. `complete` means that the pool starts no other worker. Both are None and False if the
    pool itself is gone, which then starts none either: `executor` is 0.
    """

    queue: int
    executor: int
    idents: frozenset[int] | None
    complete: bool


@record
class Awaited:
    """Futures (``PyObject *``) without a result that a thread waits for, all of them or any: they set an event."""

    event: int
    futures: Sequence[int]
    all: bool


@record
class Managed:
    """The calls of a pool of processes that have no result yet, and its number of worker processes."""

    calls: Sequence[Call]
    workers: int


class PoolReader(QueueReader):
    """Decodes the pools of one runtime."""

    def state(self, future: int) -> str | None:
        """The state of a future (``PyObject *``): ``PENDING``, ``RUNNING``, ``FINISHED`` ...; None if it has none."""
        state = self._objects.attribute(future, "_state")
        return self._objects.string(state) if state and self._objects.type_name(state) == "str" else None

    def running(self, stack: Sequence[RawFrame]) -> list[Call]:
        """The calls that a thread runs for pools of threads, by its frames: one, or several if one runs another."""
        items = [self._frames.variable(raw, "self") for raw in stack if role_of(raw.frame) == "runs-call"]
        calls = [self._call(item) for item in items if item]
        return [call for call in calls if call is not None and self.state(call.future) == "RUNNING"]

    def awaited(self, stack: Sequence[RawFrame]) -> Awaited | None:
        """What a thread waits for in `wait` or `as_completed` of `concurrent.futures`; None for another thread."""
        raw = next((raw for raw in stack if role_of(raw.frame) == "waits-for-results"), None)
        variables = dict(self._frames.variables(raw)) if raw is not None else {}
        waiter, futures = variables.get("waiter"), variables.get("pending") or variables.get("not_done")
        event = self._objects.attribute(waiter, "event") if waiter else None
        if not waiter or not event or not futures or self._objects.type_name(futures) != "set":
            return None
        pending = [future for future in self._objects.set_items(futures, MAX_QUEUED)
                   if self.state(future) in ("PENDING", "RUNNING")]
        return Awaited(event, pending, self._objects.type_name(waiter) == "_AllCompletedWaiter")

    def workers(self, stack: Sequence[RawFrame]) -> Workers | None:
        """The pool of the worker that has these frames; None for another thread."""
        raw = next((raw for raw in stack if role_of(raw.frame) == "thread-worker"), None)
        if raw is None:
            return None
        variables = dict(self._frames.variables(raw))
        queue, reference = variables.get("work_queue", 0), variables.get("executor_reference", 0)
        if not queue or not reference:
            return None
        executor = self._objects.read_member("PyWeakReference", reference, "wr_object")
        if not executor or self._objects.type_name(executor) == "NoneType":
            return Workers(queue, 0, None, False)
        most, threads = (self._objects.attribute(executor, name) for name in ("_max_workers", "_threads"))
        if not most or not threads or self._objects.type_name(threads) != "set":
            return None
        members = list(self._objects.set_items(threads, _MAX_WORKERS))
        # a thread that has ended keeps its place
        ends = [self._locks.decode(thread) for thread in members]
        idents = frozenset(end.owner for end in ends if end is not None and end.owner is not None)
        return Workers(queue, executor, idents, len(members) >= self._objects.integer(most))

    def managed(self, stack: Sequence[RawFrame]) -> Managed | None:
        """The pool of the thread that manages worker processes, and waits for results; None for another thread.

        :param stack: its frames, innermost first.
        """
        at = next((at for at, raw in enumerate(stack) if role_of(raw.frame) == "manages-processes"), None)
        if not at or is_in(stack[0].frame, "concurrent.futures.process") or not any(
                role_of(raw.frame) == "waits-for-connections" for raw in stack[:at]):
            return None
        manager = self._frames.variable(stack[at], "self")
        processes, pending = (self._objects.attribute(manager, name) if manager else None
                              for name in ("processes", "pending_work_items"))
        if not processes or not pending or any(self._objects.type_name(each) != "dict"
                                               for each in (processes, pending)):
            return None
        calls = [self._call(item) for _, item in itertools.islice(self._objects.dict_items(pending), MAX_QUEUED)]
        return Managed([call for call in calls if call is not None], self._objects.dict_size(processes))

    def queued(self, queue: int) -> list[Call]:
        """The calls in the queue of a pool (``PyObject *``), the next one first, at most `MAX_QUEUED`.

        :raises CorruptStructure: it is not a `queue.SimpleQueue`, or it is damaged.
        """
        calls = (self._call(item) for item in self._items(queue) if item)
        return [call for call in calls if call is not None]

    def _call(self, item: int) -> Call | None:
        """The call of a ``_WorkItem``; None for another object, such as the None that ends a worker."""
        if self._objects.type_name(item) != "_WorkItem":
            return None
        future, function = (self._objects.attribute(item, name) for name in ("future", "fn"))
        if function is None:  # since 3.14 the function and its arguments are a tuple
            task = self._objects.attribute(item, "task")
            parts = self._objects.tuple_start(task, 1) if task and self._objects.type_name(task) == "tuple" else ()
            function = parts[0] if parts else None
        return Call(future, self._name_of(function) if function else None) if future else None
