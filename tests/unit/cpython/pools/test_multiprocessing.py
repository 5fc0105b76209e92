from __future__ import annotations

import pytest

from gdbext.cpython.frames import FrameReader, RawFrame
from gdbext.cpython.locking.locks import LockReader
from gdbext.cpython.objects import Objects
from gdbext.cpython.pools.multiprocessing import PoolHandlers, PoolResult, PoolThread, ProcessPool, QueuedCall
from gdbext.errors import CorruptStructure
from tests.support import process_pools, thread_pools
from tests.support.fake_memory import FakeMemory
from tests.support.fake_python import VERSIONS, FakePython


@pytest.fixture(params=VERSIONS)
def python(request: pytest.FixtureRequest) -> FakePython:
    return FakePython(FakeMemory(), str(request.param))


def reader_of(python: FakePython) -> PoolHandlers:
    objects = Objects(python.memory, python.layouts)
    return PoolHandlers(python.memory, python.layouts, objects, FrameReader(python.memory, python.layouts, objects),
                        LockReader(python.memory, python.layouts, objects))


def stack_of(python: FakePython, innermost: int) -> list[RawFrame]:
    objects = Objects(python.memory, python.layouts)
    tstate = python.build.new("PyThreadState")
    python.innermost(tstate, innermost)
    return FrameReader(python.memory, python.layouts, objects).raw(tstate)


def decoded(python: FakePython, innermost: int) -> PoolThread | None:
    return reader_of(python).of(stack_of(python, innermost))


@pytest.mark.parametrize(("name", "index"), [("ApplyResult", None), ("MapResult", None), ("IMapIterator", 3),
                                           ("IMapUnorderedIterator", None)])
def test_result(python: FakePython, name: str, index: int | None) -> None:
    cache = python.namespace()
    address = process_pools.result(python, name, 7, cache, python.lock(), _index=3)
    assert reader_of(python).result(address) == PoolResult(7, cache, index, "Unordered" in name)


def test_no_result(python: FakePython) -> None:
    reader = reader_of(python)
    assert reader.result(thread_pools.future(python)) is None


def test_thread_that_sends_a_call(python: FakePython) -> None:
    cache, queue = python.namespace(), thread_pools.queue(python, process_pools.unsent(python, 8, 9))
    task = process_pools.map_task(python, 7, 2, python.function("child"))
    workers = python.list_object(python.integer(1), python.integer(2))
    handler = process_pools.frame(python, "_handle_tasks", cache=cache, outqueue=0x10, taskqueue=queue, pool=workers,
                                  task=task)
    sending = process_pools.frame(python, "send", handler, "/usr/lib/python3/multiprocessing/connection.py")
    assert decoded(python, sending) == PoolThread("sends", cache, 0x10, 7, 2, "child", [8, 9], size=2)
    # the task was sent
    assert decoded(python, handler) == PoolThread("sends", cache, 0x10, None, None, None, [8, 9], size=2, is_idle=True)


def test_thread_that_waits_for_the_next_call_of_an_iterator(python: FakePython) -> None:
    cache, queue = python.namespace(), thread_pools.queue(python, [])
    task = process_pools.task(python, 7, 2, python.function("child"))
    handler = process_pools.frame(python, "_handle_tasks", cache=cache, outqueue=0x10, taskqueue=queue, task=task)
    making = process_pools.frame(python, "_guarded_task_generation", handler, result_job=python.integer(7),
                                 i=python.integer(2))
    assert decoded(python, making) == PoolThread("sends", cache, 0x10, 7, 3, None, [])


def test_thread_that_takes_results(python: FakePython) -> None:
    cache = python.namespace()
    handler = process_pools.frame(python, "_handle_results", cache=cache, outqueue=0x10)
    assert decoded(python, handler) == PoolThread("takes", cache, 0x10)
    receiving = process_pools.frame(python, "_recv", handler, "/usr/lib/python3/multiprocessing/connection.py")
    assert decoded(python, receiving) == PoolThread("takes", cache, 0x10, is_idle=True)
    assert decoded(python, process_pools.frame(python, "_handle_results", cache=0, outqueue=0x10)) is None


def test_worker(python: FakePython) -> None:
    arguments = python.tuple_object(python.integer(1))
    worker = process_pools.frame(python, "worker", inqueue=0x20, outqueue=0x10, job=python.integer(7),
                                 i=python.integer(1), func=python.function("child"), args=arguments)
    assert decoded(python, worker) == PoolThread("works", 0, 0x10, 7, 1, "child", calls=0x20)
    nothing = process_pools.none(python)
    idle = process_pools.frame(python, "worker", inqueue=0x20, outqueue=0x10, job=nothing, i=nothing, func=nothing)
    assert decoded(python, idle) == PoolThread("works", 0, 0x10, calls=0x20)


def test_other_frames(python: FakePython) -> None:
    assert decoded(python, process_pools.frame(python, "worker", file="/app/pool.py", outqueue=0x10)) is None
    assert decoded(python, process_pools.frame(python, "map", outqueue=0x10)) is None


def test_queued_calls(python: FakePython) -> None:
    items = [process_pools.task(python, 7, 0, python.function("child")),
             process_pools.map_task(python, 8, 1, python.function("part")), process_pools.none(python),
             python.tuple_object(python.integer(1))]
    assert reader_of(python).queued(thread_pools.queue(python, items)) == [
        QueuedCall(7, 0, "child"), QueuedCall(8, 1, "part"), QueuedCall(None, None, None)]
    with pytest.raises(CorruptStructure):
        reader_of(python).queued(python.instance("SimpleQueue", _reader=python.integer(1)))


@pytest.mark.parametrize("form", ["variables", "pool"])
@pytest.mark.parametrize("most", [None, 5])
def test_pool_of_processes(python: FakePython, form: str, most: int | None) -> None:
    cache, handle = python.namespace(), python.build.alloc(32)
    semaphore = python.builtin("_multiprocessing.SemLock", "SemLockObject", handle=handle, maxvalue=1, kind=1)
    reader = python.instance("Connection", _handle=python.integer(6))
    queue = python.instance("SimpleQueue", _reader=reader, _rlock=python.instance("SemLock", _semlock=semaphore))
    workers = [python.instance("ForkProcess", _popen=python.instance("Popen", pid=python.integer(pid)),
                               _name=python.string(name)) for pid, name in ((101, "W-1"), (103, "W-3"))]
    members = {"cache": cache, "pool": python.list_object(*workers), "inqueue": queue,
               "maxtasksperchild": process_pools.none(python) if most is None else python.integer(most)}
    if form == "pool":  # up to 3.7
        members = {"pool": python.instance("Pool", _cache=cache, _pool=members["pool"], _inqueue=queue,
                                           _maxtasksperchild=members["maxtasksperchild"])}
    frames = stack_of(python, process_pools.frame(python, "_handle_workers", 0, process_pools.FILE, **members))
    assert reader_of(python).processes(frames) == ProcessPool(
        cache, [(101, "W-1"), (103, "W-3")], 6, handle, most is None)


def test_pool_of_threads_has_no_processes(python: FakePython) -> None:
    queue = thread_pools.queue(python, [])
    frames = stack_of(python, process_pools.frame(python, "_handle_workers", cache=python.namespace(), inqueue=queue,
                                                  pool=python.list_object()))
    assert reader_of(python).processes(frames) is None
    other = stack_of(python, process_pools.frame(python, "_handle_tasks"))
    assert reader_of(python).processes(other) is None


def test_names_of_child_processes(python: FakePython) -> None:
    python.runtime()
    interpreter = python.interpreter()
    popen = python.instance("Popen", pid=python.integer(12))
    started = python.instance("ForkProcess", _popen=popen, _name=python.string("loader"))
    children = python.set_object(started)
    module = python.module_object(_children=children)
    python.build.put("PyInterpreterState", interpreter, modules=python.namespace(**{"multiprocessing.process": module}))
    assert reader_of(python).children(interpreter) == {12: "loader"}
    python.build.put("PyInterpreterState", interpreter, modules=python.namespace())
    assert reader_of(python).children(interpreter) == {}
