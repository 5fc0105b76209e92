"""Pools of threads of `concurrent.futures` in the memory of a `FakePython`."""

from __future__ import annotations

from collections.abc import Sequence

from tests.support.fake_python import FakePython

FILE = "/usr/lib/python3/concurrent/futures/thread.py"


def future(python: FakePython, state: str = "PENDING", condition: int = 0) -> int:
    """A future with a condition that threads may wait for."""
    guard = condition or python.condition(python.lock(locked=False))
    return python.instance("Future", _condition=guard, _state=python.string(state))


def item(python: FakePython, of: int, function: int, as_task: bool = False) -> int:
    """A call; since CPython 3.14 the function is in a tuple with its arguments."""
    if as_task:
        return python.instance("_WorkItem", future=of, task=python.tuple_object(function, python.tuple_object()))
    return python.instance("_WorkItem", future=of, fn=function)


def queue(python: FakePython, items: Sequence[int], taken: int = 0) -> int:
    """A ``SimpleQueue`` from which some items have been taken."""
    at = python.build.alloc(128)
    python.build.put("PyObject", at, ob_type=python.type_object("_queue.SimpleQueue"))
    if python.version_tuple < (3, 13):
        return python.build.put("simplequeueobject", at, lock=python.inner_lock(),
                                lst=python.list_object(*[0] * taken, *items), lst_pos=taken)
    size = max(8, len(items))
    ring = [0] * size
    for i, value in enumerate(items):
        ring[(taken + i) % size] = value
    array = python.build.alloc(8 * size)
    python.memory.u64(array, *ring)
    return python.build.put("simplequeueobject", at, **{
        "buf.items": array, "buf.get_idx": taken, "buf.items_cap": size, "buf.num_items": len(items)})


def thread(python: FakePython, ident: int, runs: bool = True) -> int:
    """A ``threading.Thread`` that runs, or has ended."""
    if python.version_tuple < (3, 13):
        return python.instance("Thread", _tstate_lock=python.lock(locked=runs), _ident=python.integer(ident))
    handle = python.build.new("ThreadHandle", ident=ident, state=3 if runs else 4)
    at = python.builtin("_thread._ThreadHandle", "PyThreadHandleObject", handle=handle)
    if python.version_tuple < (3, 14):
        return python.instance("Thread", _handle=at)
    return python.instance("Thread", _os_thread_handle=at)


def executor(python: FakePython, most: int, threads: Sequence[int]) -> int:
    """A pool with its workers."""
    return python.instance("ThreadPoolExecutor", _max_workers=python.integer(most),
                           _threads=python.set_object(*threads))


def worker_frame(python: FakePython, executor: int, queue: int, previous: int = 0) -> int:
    """The frame of a worker."""
    reference = python.builtin("weakref.ReferenceType", "PyWeakReference", wr_object=executor)
    code = python.code("_worker", 80, variables=["executor_reference", "work_queue"], file=FILE)
    return python.fill(python.frame(code, previous), [reference, queue])


def run_frame(python: FakePython, item: int, previous: int = 0, file: str = FILE) -> int:
    """The frame of a worker that runs a call."""
    return python.fill(python.frame(python.code("run", 60, variables=["self"], file=file), previous), [item])


def waiting_frame(python: FakePython, event: int, futures: Sequence[int], function: str = "wait",
                  waiter: str = "_AllCompletedWaiter") -> int:
    """The frame of a thread that waits for several futures, which will set an event."""
    name = "not_done" if function == "wait" else "pending"
    code = python.code(function, 300, variables=[name, "waiter"], file=FILE.replace("thread.py", "_base.py"))
    return python.fill(python.frame(code), [python.set_object(*futures), python.instance(waiter, event=event)])


def manager_frame(python: FakePython, processes: int, pending: Sequence[int]) -> int:
    """The frames of the thread that manages the worker processes of a pool, and waits for their results."""
    items = [(python.integer(number), each) for number, each in enumerate(pending)]
    workers = [(python.integer(100 + number), python.string("process")) for number in range(processes)]
    manager = python.instance("_ExecutorManagerThread", processes=python.dictionary(workers, False),
                              pending_work_items=python.dictionary(items, False))
    folder = FILE.rpartition("/thread.py")[0]
    run = python.fill(python.frame(python.code("run", 300, variables=["self"], file=f"{folder}/process.py")), [manager])
    waits = python.frame(python.code("wait_result_broken_or_wakeup", 400, file=f"{folder}/process.py"), run)
    return python.frame(python.code("wait", 900, file="/usr/lib/python3/multiprocessing/connection.py"), waits)
