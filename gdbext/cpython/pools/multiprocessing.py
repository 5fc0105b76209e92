"""Decodes the pools of `multiprocessing.pool`: the threads that send calls, take results, or run the calls.

Sources: CPython 3.13 and 3.6 Lib/multiprocessing/pool.py. A result has the number of its job; no two results of a
process have the same. The results that a pool still has to make are in its cache, a dict, which the result and the
threads of the pool share.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from gdbext.cpython.frames import RawFrame
from gdbext.cpython.pools.queues import QueueReader
from gdbext.errors import GdbextError
from gdbext.model.standard_library import is_in, role_of
from gdbext.record import record

Role = Literal["sends", "takes", "works"]

#: What the threads of a pool do, by what their functions are for.
_ROLES: Mapping[str | None, Role] = {"sends-calls": "sends", "takes-results": "takes", "worker": "works"}
#: Functions with which a pool calls the program's function for several arguments.
_STARS = frozenset(("mapstar", "starmapstar"))
#: Most calls that are read of those which a pool has not sent yet.
_MAX_UNSENT = 1000
#: Most processes of one interpreter whose names are read.
_MAX_CHILDREN = 10_000


@record
class PoolThread:
    """What a thread of a pool does: it sends calls to the workers, takes their results, or is a worker.

    `cache` has the results that the pool still has to make (``PyObject *``, 0 for a worker), `results` is the queue
    from the workers. `job` and `index` are those of the call at hand, None if there is none; `function` is its name.
    `unsent` are the jobs of the calls that wait to be sent. `calls` is the queue from which a worker takes them. `size`
    is the number of workers, where that is known. `is_idle`: it waits for the next call or result.
    """

    role: Role
    cache: int
    results: int
    job: int | None = None
    index: int | None = None
    function: str | None = None
    unsent: Sequence[int] = ()
    calls: int = 0
    size: int | None = None
    is_idle: bool = False


@record
class ProcessPool:
    """A pool of processes: its cache (``PyObject *``), and the PIDs and names of its workers.

    `descriptor` is that of the pipe from which workers read calls, and `lock` the word of the lock that each of them
    needs meanwhile. `lasting`: a worker ends only with the pool, or when something goes wrong.
    """

    cache: int
    workers: Sequence[tuple[int, str]]
    descriptor: int
    lock: int
    lasting: bool


@record
class QueuedCall:
    """A call in the queue to the workers of a pool of threads."""

    job: int | None
    index: int | None
    function: str | None


@record
class PoolResult:
    """A result: the number of its job, and the cache of its pool (``PyObject *``).

    `index` is that of the only call which the next item needs, None if all calls are needed, or `any_call`.
    """

    job: int
    cache: int
    index: int | None = None
    any_call: bool = False


class PoolHandlers(QueueReader):
    """Decodes the threads and results of the pools of one runtime."""

    def result(self, address: int) -> PoolResult | None:
        """A result that a thread waits for (``PyObject *``): an ``ApplyResult`` or an iterator; or None."""
        names = self._objects.type_names(address)
        job, cache = self._number(address, "_job"), self._objects.attribute(address, "_cache")
        if job is None or not cache:
            return None
        any_call = "IMapUnorderedIterator" in names
        index = self._number(address, "_index") if "IMapIterator" in names and not any_call else None
        return PoolResult(job, cache, index, any_call)

    def taker_has_ended(self, address: int) -> bool:
        """Whether the thread that takes the results of the pool has ended, of the pool that makes a result.

        It ends if a result cannot be unpickled, among others. Before CPython 3.8 a result does not know its pool.
        """
        pool = self._objects.attribute(address, "_pool")
        taker = self._objects.attribute(pool, "_result_handler") if pool else None
        if not taker or "Thread" not in self._objects.type_names(taker):
            return False
        end = self._locks.decode(taker)
        return end is None or end.owner is None or not end.locked

    def of(self, stack: Sequence[RawFrame]) -> PoolThread | None:
        """What the thread with these frames, innermost first, does for a pool; None if a pool has no such thread."""
        at = next((at for at, raw in enumerate(stack)
                   if role_of(raw.frame) in _ROLES), None)
        if at is None:
            return None
        role, variables = _ROLES[role_of(stack[at].frame)], dict(self._frames.variables(stack[at]))
        results, cache = variables.get("outqueue", 0), variables.get("cache", 0)
        if role == "works":
            job, index = (self._integer(variables.get(name, 0)) for name in ("job", "i"))
            return PoolThread("works", 0, results, job, index, self._function(variables),
                              calls=variables.get("inqueue", 0))
        if not cache:
            return None
        if role == "takes":
            receives = at > 0 and all(is_in(raw.frame, "multiprocessing.connection") for raw in stack[:at])
            return PoolThread("takes", cache, results, is_idle=receives)
        job, index, function = self._sent(stack[:at], variables.get("task", 0))
        return PoolThread("sends", cache, results, job, index, function,
                          list(self._unsent(variables.get("taskqueue", 0))), size=self._size(variables.get("pool", 0)),
                          is_idle=at == 0)

    def processes(self, stack: Sequence[RawFrame]) -> ProcessPool | None:
        """The pool of the thread that replaces workers, which has these frames; None for another thread.

        Up to 3.7 the function has the pool itself, later what it needs of it.
        """
        raw = next((raw for raw in stack if role_of(raw.frame) == "replaces-workers"), None)
        if raw is None:
            return None
        variables = dict(self._frames.variables(raw))
        cache, pool, queue = (variables.get(name, 0) for name in ("cache", "pool", "inqueue"))
        most = variables.get("maxtasksperchild", 0)
        if not queue and pool:
            cache, queue, most, pool = (self._objects.attribute(pool, name) or 0
                                        for name in ("_cache", "_inqueue", "_maxtasksperchild", "_pool"))
        reader = self._objects.attribute(queue, "_reader") if queue else None
        lock = self._locks.decode(self._objects.attribute(queue, "_rlock") or 0) if reader else None
        descriptor = self._number(reader, "_handle") if reader else None
        if not cache or descriptor is None or lock is None or not lock.words or self._size(pool) is None:
            return None
        workers = [self._worker(worker) for worker in self._objects.list_items(pool)]
        known = [worker for worker in workers if worker is not None]
        if len(known) != len(workers):
            return None
        return ProcessPool(cache, known, descriptor, lock.words[0], bool(most) and self._integer(most) is None)

    def children(self, interpreter: int) -> dict[int, str]:
        """The names of the processes that `multiprocessing` has started in an interpreter, by PID.

        :param interpreter: ``PyInterpreterState *``.
        """
        modules = self._objects.read_member("PyInterpreterState", interpreter, "modules")
        module = self._objects.dict_get(modules, "multiprocessing.process") if modules else None
        namespace = self._objects.read_member("PyModuleObject", module, "md_dict") if module else 0
        children = self._objects.dict_get(namespace, "_children") if namespace else None
        found = [self._worker(each) for each in self._objects.set_items(children, _MAX_CHILDREN)] if children else []
        return dict(each for each in found if each is not None)

    def _worker(self, worker: int) -> tuple[int, str] | None:
        """The PID and the name of a ``Process``; None if it was not started."""
        popen, name = (self._objects.attribute(worker, attribute) for attribute in ("_popen", "_name"))
        pid = self._number(popen, "pid") if popen else None
        return (pid, self._objects.string(name)) if pid is not None and name else None

    def queued(self, queue: int) -> list[QueuedCall]:
        """The calls in a `queue.SimpleQueue` from which the workers of a pool of threads take them.

        :raises CorruptStructure: it is another object, as in a pool of processes, or it is damaged.
        """
        return [QueuedCall(*self._task(item)) for item in self._items(queue)
                if item and self._objects.type_name(item) == "tuple"]

    def _sent(self, above: Sequence[RawFrame], task: int) -> tuple[int | None, int | None, str | None]:
        """The call that is sent, or made by the program's iterator; above are the frames that this calls."""
        making = next((raw for raw in above if role_of(raw.frame) == "makes-calls"), None)
        if making is not None:
            last = self._integer(self._frames.variable(making, "i"))
            return (self._integer(self._frames.variable(making, "result_job")), None if last is None else last + 1,
                    None)
        if not above or not task or self._objects.type_name(task) != "tuple":
            return None, None, None  # the task was sent already
        return self._task(task)

    def _task(self, task: int) -> tuple[int | None, int | None, str | None]:
        """Job, index and function of ``(job, i, func, args, kwds)``."""
        items = self._objects.tuple_start(task, 5)
        if len(items) < 5:
            return None, None, None
        return self._integer(items[0]), self._integer(items[1]), self._function({"func": items[2], "args": items[3]})

    def _function(self, variables: dict[str, int]) -> str | None:
        """The name of the program's function, which the first argument of the pool's own functions contains."""
        name = self._name_of(variables["func"]) if variables.get("func") else None
        args = variables.get("args", 0)
        if name not in _STARS or not args:
            return name
        batch = self._objects.tuple_start(args, 1)
        function = self._objects.tuple_start(batch[0], 1) if batch else ()
        return self._name_of(function[0]) if function else None

    def _unsent(self, queue: int) -> Iterator[int]:
        """The jobs of the calls in the queue from the program."""
        for item in self._items(queue)[:_MAX_UNSENT] if queue else ():
            try:
                job = self._job(item) if item and self._objects.type_name(item) == "tuple" else None
            except GdbextError:
                continue
            if job is not None:
                yield job

    def _job(self, item: int) -> int | None:
        """The job of an item of that queue: ``([task], None)``, or a generator of tasks and what sets their number."""
        tasks, *_ = self._objects.tuple_start(item, 1) or (0,)
        if not tasks:
            return None
        if self._objects.type_name(tasks) == "list":
            first = self._objects.list_start(tasks, 1)
            return self._task(first[0])[0] if first else None
        raw = self._frames.generator(tasks)
        return self._integer(self._frames.variable(raw, "result_job")) if raw is not None else None

    def _size(self, workers: int) -> int | None:
        return self._objects.size(workers) if workers and self._objects.type_name(workers) == "list" else None

    def _number(self, address: int, name: str) -> int | None:
        return self._integer(self._objects.attribute(address, name) or 0)

    def _integer(self, value: int) -> int | None:
        return self._objects.integer(value) if value and self._objects.type_name(value) == "int" else None
