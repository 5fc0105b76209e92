"""Finds which threads make the results of `multiprocessing.pool`: those of a pool, and the workers of a `ThreadPool`.

A pool of processes has a thread that sends the calls and one that takes all results. If one of them waits for a lock,
no result comes that it has still to pass on (`DERIVED`).
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from gdbext.cpython.pools.multiprocessing import PoolResult, PoolThread, ProcessPool
from gdbext.errors import GdbextError
from gdbext.holders.queued_calls import queued_behind
from gdbext.locks.python_reader import Reader
from gdbext.locks.seen import Known, Orphaned, SeenLock
from gdbext.model import DERIVED, EXCLUSIVE, INFERRED, Holder
from gdbext.model.kinds import kind_of
from gdbext.model.reasons import Reason, because, joined
from gdbext.waits.context import Context

#: Most workers of a pool whose sleep is read.
_MAX_PROCESSES = 256
#: How long the threads and workers of a pool must have slept, in seconds: longer than it takes to read all of them.
_ASLEEP = 1.0
#: Most workers that are named.
_MAX_NAMED = 4
#: The name of a worker: ``ForkPoolWorker-3``, in a child process ``ForkPoolWorker-1:3``.
_NUMBERED = re.compile(r"(\w+-(?:\d+:)*)(\d{1,9})")


class PoolResults:
    """The calls of the pools of `multiprocessing` in a process.

    :param waited: the locks that threads wait for, by the thread's number.
    """

    def __init__(self, context: Context, waited: Mapping[int, SeenLock]) -> None:
        self._context = context
        self._waited = waited

    def find(self, lock: SeenLock, address: int) -> SeenLock | None:
        """The result at an address (``PyObject *``) with the threads that have to act for it; None if none is known."""
        for reader in {id(reader): reader for _, reader, _ in self._threads}.values():
            try:
                result = reader.pool_handlers.result(address)
            except GdbextError:
                continue
            if result is not None:
                return self._find(lock, reader, result) or self._left(lock, reader, result, address)
        return None

    def _find(self, lock: SeenLock, reader: Reader, result: PoolResult) -> SeenLock | None:
        pool = [(number, thread) for number, _, thread in self._threads if thread.cache == result.cache]
        queues = {thread.results for _, thread in pool}
        workers = [(number, thread) for number, _, thread in self._threads
                   if thread.role == "works" and thread.results in queues]
        found: dict[int, Reason] = {}
        for number, thread in pool:
            if thread.role == "sends" and _has_to_send(thread, result):
                found[number] = because("pool-sends-call", function=thread.function)
            elif thread.role == "takes" and self._waits_for_lock(number):
                found[number] = because("pool-takes-results")
        is_needed = bool(found)
        if result.any_call and (is_needed or self._may_come_otherwise(reader, result, pool, workers)):
            workers = []  # another call may be done first
        for number, thread in workers:
            if thread.job == result.job and result.index in (None, thread.index):
                found[number] = because("runs-call", function=thread.function)
        if found:
            holders = tuple([Holder(number, EXCLUSIVE, DERIVED, why) for number, why in sorted(found.items())])
            return replace(lock, held=Known(holders), wait_for="any" if result.any_call and not is_needed else "all")
        lost = self._lost(lock, result, pool) or self._replaced(lock, result)
        if lost is not None or result.any_call:
            return lost
        try:
            calls = [call for _, thread in workers[:1] for call in reader.pool_handlers.queued(thread.calls)]
        except GdbextError:
            return None
        call = next((call for call in calls if call.job == result.job and result.index in (None, call.index)), None)
        if call is None:
            return None
        size = next((thread.size for _, thread in pool if thread.role == "sends"), None)
        numbers = [number for number, _ in workers]
        return queued_behind(lock, numbers, call.function, [each.function for each in calls],
                             self._context.threads.all_available and size == len(numbers), self._waited)

    def _may_come_otherwise(self, reader: Reader, result: PoolResult, pool: Sequence[tuple[int, PoolThread]],
                            workers: Sequence[tuple[int, PoolThread]]) -> bool:
        """Whether a call of a job may be done that no thread of the process runs now: one that is queued, or not sent.

        Of a pool of processes the calls that were sent are not known.
        """
        try:
            calls = [call for _, thread in workers[:1] for call in reader.pool_handlers.queued(thread.calls)]
        except GdbextError:
            return True
        return (any(call.job == result.job for call in calls) or not self._context.threads.all_available
                or not any(thread.role == "sends" for _, thread in pool)
                or any(thread.job == result.job or result.job in thread.unsent for _, thread in pool))

    def _left(self, lock: SeenLock, reader: Reader, result: PoolResult, address: int) -> SeenLock | None:
        """The result that nobody takes, since the pool's thread that did so has ended."""
        takers = [thread for _, _, thread in self._threads if thread.cache == result.cache and thread.role == "takes"]
        try:
            has_ended = not takers and reader.pool_handlers.taker_has_ended(address)
        except GdbextError:
            return None
        if not has_ended or not self._context.threads.all_available:
            return None
        return replace(lock, held=Orphaned(because("no-maker"), DERIVED), why=because("taker-has-ended"))

    def _lost(self, lock: SeenLock, result: PoolResult, pool: Sequence[tuple[int, PoolThread]]) -> SeenLock | None:
        """The result that no worker makes: all calls were sent, none is on its way, and all workers wait for calls.

        All that has to hold at one moment, so each process and thread must have slept for a while.
        """
        proc = self._context.target.proc
        if proc is None or {thread.role for _, thread in pool if thread.is_idle} != {"sends", "takes"}:
            return None
        processes = next((each for each in self._processes if each.cache == result.cache), None)
        if processes is None or not 0 < len(processes.workers) <= _MAX_PROCESSES:
            return None
        refs = [self._context.threads[number].ref for number, _ in pool]
        slept = self._context.target.seconds_since_run(refs)
        if any(slept.get(number, 0.0) < _ASLEEP for number, _ in pool):
            return None
        pipe, word = proc.descriptors.link(processes.descriptor), proc.shared_word(processes.lock)
        reading = 0
        for pid, _ in processes.workers:  # a process that has the pipe or the lock is one of the pool's
            sleeper = proc.sleeper(pid)
            if sleeper is None or sleeper.seconds < _ASLEEP:
                return None
            call = self._context.code.cpu.system_call_names().get(sleeper.call)
            if call == "read" and pipe is not None and sleeper.link == pipe:
                reading += 1
            elif call != "futex" or word is None or sleeper.word != word:
                return None
        if not reading:
            return None  # the pipe may not be empty
        why = because("call-lost", workers=len(processes.workers), gone=_gone(processes))
        return replace(lock, held=Orphaned(because("no-maker"), INFERRED),
                       why=joined([why, because("pool-is-idle")]))

    def _replaced(self, lock: SeenLock, result: PoolResult) -> SeenLock | None:
        """The result with the reason that each worker of its pool has ended, or was started since the wait began.

        As where the initialiser of the pool fails. A worker without a largest number of calls ends with the pool only.
        """
        proc = self._context.target.proc
        processes = next((each for each in self._processes if each.cache == result.cache), None)
        if proc is None or processes is None or not processes.lasting:
            return None
        waiting = [self._context.threads[number].ref for number, each in self._waited.items() if each.id == lock.id]
        slept = min(self._context.target.seconds_since_run(waiting).values(), default=0.0)
        ages = [proc.age(pid) for pid, _ in processes.workers]
        if not 0 < len(ages) <= _MAX_PROCESSES or any(age is not None and age > slept - _ASLEEP for age in ages):
            return None
        names = tuple([name for _, name in processes.workers[:_MAX_NAMED]])
        return replace(lock, why=because("workers-replaced", names=names))

    def _waits_for_lock(self, number: int) -> bool:
        """Whether the thread that takes results waits for something other than a result."""
        lock = self._waited.get(number)
        return lock is not None and kind_of(lock.kind).behaviour != "outside" and lock.state != "queue is empty"

    @cached_property
    def _processes(self) -> Sequence[ProcessPool]:
        found = self._context.python_locks.in_stacks(lambda reader, stack: reader.pool_handlers.processes(stack))
        return [pool for _, _, pool in found]

    @cached_property
    def _threads(self) -> Sequence[tuple[int, Reader, PoolThread]]:
        return self._context.python_locks.in_stacks(lambda reader, stack: reader.pool_handlers.of(stack))


def _has_to_send(thread: PoolThread, result: PoolResult) -> bool:
    """Whether a call that a result needs is not sent yet."""
    if result.job in thread.unsent:
        return True
    at_hand = thread.job == result.job
    if result.any_call:
        return at_hand and thread.index == 0  # later ones may be done before
    return at_hand and (result.index is None or thread.index is not None and thread.index <= result.index)


def _gone(pool: ProcessPool) -> tuple[str, ...]:
    """The first names of workers that a pool has replaced. A number between two others that is missing shows one.

    A pool starts its workers one after the other, and replaces one that ends. The program may have started other
    processes meanwhile, but these have other names.
    """
    names = [_NUMBERED.fullmatch(name) for _, name in pool.workers]
    if not pool.lasting or not all(names):
        return ()
    numbers = {int(name[2]) for name in names if name}
    start = {name[1] for name in names if name}
    if len(start) != 1:
        return ()
    missing = (number for number in range(min(numbers), max(numbers)) if number not in numbers)
    return tuple([f"{min(start)}{number}" for number in itertools.islice(missing, _MAX_NAMED)])
