"""Finds which threads make the results that other threads wait for.

A call that a pool of `concurrent.futures` runs is on the stack of the thread that runs it (`DERIVED`). A call in the
queue of a pool will be run by one of its workers: see `queued_calls`. For `multiprocessing` see `pool_results`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from gdbext.cpython.pools.futures import Awaited, Call, Managed, Workers
from gdbext.errors import GdbextError
from gdbext.holders.pool_results import PoolResults
from gdbext.holders.queued_calls import queued_behind
from gdbext.locks.python_reader import Reader
from gdbext.locks.seen import Known, Orphaned, SeenLock, held_by
from gdbext.model import DERIVED, INFERRED, RESULT_PENDING
from gdbext.model.reasons import because, joined
from gdbext.model.standard_library import role_of
from gdbext.record import record
from gdbext.waits.context import Context


@record
class _Pool:
    """A pool of threads: its queue, the calls in it, and the numbers of the workers that may take them.

    `complete`: it has no other worker, and starts none.
    """

    queue: int
    calls: Sequence[Call]
    workers: tuple[int, ...]
    complete: bool


class Results:
    """The calls that the pools of a process run, and those in their queues; for both kinds of pools.

    :param waited: the locks that threads wait for, by the thread's number.
    """

    def __init__(self, context: Context, waited: Mapping[int, SeenLock]) -> None:
        self._context = context
        self._waited = waited
        self._of_handlers = PoolResults(context, waited)

    def find(self, lock: SeenLock, waiters: Collection[int]) -> SeenLock | None:
        """The result with the threads that may make it; None if they are not known."""
        if lock.python is None:
            return None
        # the event of results that are awaited together is that of one thread
        together = self._awaited(lock.python.address, *waiters) if len(waiters) == 1 else None
        if together is not None:
            return self._of_several(replace(lock, state=RESULT_PENDING), together)
        return self._of_one(lock, lock.python.address) if lock.state == RESULT_PENDING else None

    def _of_several(self, lock: SeenLock, awaited: Awaited) -> SeenLock:
        """Results that are awaited together. Each thread that makes one of them is needed, or else any of these."""
        made = [self._of_one(lock, future) for future in awaited.futures]
        known = [one.held.holders if one is not None and isinstance(one.held, Known) else () for one in made]
        if not awaited.all and not all(known):
            return lock
        first = {holder.thread: holder for holders in reversed(known) for holder in holders}
        held = Known(tuple(first[number] for number in sorted(first))) if first else lock.held
        return replace(lock, held=held, wait_for="all" if awaited.all else "any")

    def _of_one(self, lock: SeenLock, future: int) -> SeenLock | None:
        running = self._running.get(future)
        if running is not None:
            number, call = running
            why = because("runs-call", function=call.function)
            return replace(lock, held=held_by((number,), DERIVED, why))
        for pool in self._pools:
            queued = next((call for call in pool.calls if call.future == future), None)
            if queued is not None:
                return queued_behind(lock, pool.workers, queued.function, [call.function for call in pool.calls],
                                     pool.complete, self._waited)
        for number, _, managed in self._managers:
            if any(call.future == future for call in managed.calls):
                return self._of_processes(lock, number, managed)
        return self._of_handlers.find(lock, future)

    def _of_processes(self, lock: SeenLock, manager: int, managed: Managed) -> SeenLock | None:
        """The result of a call of a pool of processes, if that has no worker and starts none.

        It starts one when a call is submitted, so no other thread may be able to do that.
        """
        call = self._context.threads[manager].call
        if managed.workers or call is None or not call.blocked or not all(
                self._waits_for_results(seen.number) for seen in self._context.threads if seen.number != manager):
            return None
        why = because("pool-without-workers", pending=len(managed.calls))
        return replace(lock, held=Orphaned(because("no-maker"), INFERRED),
                       why=joined([why, because("only-submit-starts-workers")]))

    def _waits_for_results(self, number: int) -> bool:
        """Whether a thread waits for a result, or for calls to send to the workers of a pool."""
        lock = self._waited.get(number)
        return lock is not None and (lock.state == RESULT_PENDING or any(
            role_of(raw.frame) == "sends-items"
            for _, stack in self._context.python_locks.stacks(number) for raw in stack))

    def _awaited(self, event: int, waiter: int) -> Awaited | None:
        """The results that a thread waits for together, if they set an event (``PyObject *``)."""
        for reader, stack in self._context.python_locks.stacks(waiter):
            try:
                awaited = reader.pools.awaited(stack)
            except GdbextError:
                continue
            if awaited is not None and awaited.event == event:
                return awaited
        return None

    @cached_property
    def _running(self) -> Mapping[int, tuple[int, Call]]:
        """By future (``PyObject *``): the thread that runs its call."""
        found = self._context.python_locks.in_stacks(lambda reader, stack: reader.pools.running(stack))
        return {call.future: (number, call) for number, _, calls in found for call in calls}

    @cached_property
    def _pools(self) -> Sequence[_Pool]:
        found: dict[int, tuple[Reader, Workers, set[int]]] = {}
        for number, reader, workers in self._context.python_locks.in_stacks(
                lambda reader, stack: reader.pools.workers(stack)):
            found.setdefault(workers.queue, (reader, workers, set()))[2].add(number)
        return [pool for each in found.values() if (pool := self._pool(*each)) is not None]

    def _pool(self, reader: Reader, workers: Workers, numbers: Collection[int]) -> _Pool | None:
        number_of, threads = self._context.threads.number_of_pthread, self._context.threads
        try:
            calls = [call for call in reader.pools.queued(workers.queue)
                     if reader.pools.state(call.future) == "PENDING"]
        except GdbextError:
            return None
        # without the pool itself, those with its queue are all, if the stack of no thread is missing
        of_pool = {number_of.get(ident) for ident in workers.idents} if workers.idents is not None else {*numbers}
        complete = threads.all_available and of_pool == {*numbers} and (workers.complete or not workers.executor)
        return _Pool(workers.queue, calls, tuple(sorted(numbers)), complete)

    @cached_property
    def _managers(self) -> Sequence[tuple[int, Reader, Managed]]:
        return self._context.python_locks.in_stacks(lambda reader, stack: reader.pools.managed(stack))
