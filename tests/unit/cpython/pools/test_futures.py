from __future__ import annotations

import pytest

from gdbext.cpython.frames import FrameReader, RawFrame
from gdbext.cpython.locking.locks import LockReader
from gdbext.cpython.objects import Objects
from gdbext.cpython.pools.futures import Awaited, Call, Managed, PoolReader
from gdbext.cpython.pools.queues import MAX_QUEUED
from gdbext.errors import CorruptStructure
from tests.support import thread_pools, versions
from tests.support.fake_memory import FakeMemory
from tests.support.fake_python import VERSIONS, FakePython

ME = 0x7F00_1234_5700


@pytest.fixture(params=VERSIONS)
def python(request: pytest.FixtureRequest) -> FakePython:
    return FakePython(FakeMemory(), str(request.param))


def reader_of(python: FakePython) -> PoolReader:
    objects = Objects(python.memory, python.layouts)
    return PoolReader(python.memory, python.layouts, objects, FrameReader(python.memory, python.layouts, objects),
                      LockReader(python.memory, python.layouts, objects))


def frames_of(python: FakePython, innermost: int) -> list[RawFrame]:
    objects = Objects(python.memory, python.layouts)
    tstate = python.build.new("PyThreadState")
    python.innermost(tstate, innermost)
    return FrameReader(python.memory, python.layouts, objects).raw(tstate)


@pytest.mark.parametrize("form", ["function and arguments", "task"])
def test_queued_calls(python: FakePython, form: str) -> None:
    futures = [thread_pools.future(python) for _ in range(3)]
    functions = [python.function("child"), python.builtin_method("get", python.string("")),
                 python.string("no function")]
    items = [thread_pools.item(python, future, function, form == "task")
             for future, function in zip(futures, functions)]
    queue = thread_pools.queue(python, [*items, python.builtin("NoneType", "PyObject")], taken=2)
    assert reader_of(python).queued(queue) == [
        Call(futures[0], "child"), Call(futures[1], "get"), Call(futures[2], None)]


def test_no_calls_are_queued(python: FakePython) -> None:
    assert reader_of(python).queued(thread_pools.queue(python, [])) == []


def test_queue_is_read_up_to_a_limit(python: FakePython) -> None:
    one = thread_pools.item(python, thread_pools.future(python), python.function("child"))
    queue = thread_pools.queue(python, [one] * (MAX_QUEUED + 5))
    assert len(reader_of(python).queued(queue)) == MAX_QUEUED


def test_damaged_queue(python: FakePython) -> None:
    reader, queue = reader_of(python), thread_pools.queue(python, [])
    with pytest.raises(CorruptStructure):
        reader.queued(python.string("no queue"))
    if python.version_tuple >= (3, 13):
        python.build.put("simplequeueobject", queue, **{"buf.num_items": 1 << 40})
    else:
        python.build.put("simplequeueobject", queue, lst_pos=1)
    with pytest.raises(CorruptStructure):
        reader.queued(queue)


@pytest.mark.parametrize("python", versions.from_minor(13), indirect=True)
def test_ring_of_calls_continues_at_its_start(python: FakePython) -> None:
    futures = [thread_pools.future(python) for _ in range(4)]
    items = [thread_pools.item(python, future, python.function("child")) for future in futures]
    queue = thread_pools.queue(python, items, taken=6)
    assert [call.future for call in reader_of(python).queued(queue)] == futures


def test_state_of_a_future(python: FakePython) -> None:
    reader = reader_of(python)
    assert reader.state(thread_pools.future(python, "RUNNING")) == "RUNNING"
    assert reader.state(python.instance("Future", _state=python.integer(1))) is None
    assert reader.state(python.instance("Future", done=python.integer(1))) is None


def test_call_that_a_frame_runs(python: FakePython) -> None:
    reader, future = reader_of(python), thread_pools.future(python, "RUNNING")
    item = thread_pools.item(python, future, python.function("child"))
    running = frames_of(python, thread_pools.run_frame(python, item))
    assert reader.running(running) == [Call(future, "child")]
    # it has raised an exception, and the future has that
    done = frames_of(python, thread_pools.run_frame(python, 0))
    assert reader.running(done) == []
    other = frames_of(python, thread_pools.run_frame(python, item, file="/app/concurrent.py"))
    assert reader.running(other) == []


@pytest.mark.parametrize(("function", "waiter", "every"), [
    ("wait", "_AllCompletedWaiter", True), ("wait", "_FirstCompletedWaiter", False),
    ("as_completed", "_AsCompletedWaiter", False)])
def test_futures_that_are_awaited_together(python: FakePython, function: str, waiter: str, every: bool) -> None:
    pending, made = thread_pools.future(python, "RUNNING"), thread_pools.future(python, "FINISHED")
    event = python.instance("Event")
    frames = frames_of(python, thread_pools.waiting_frame(python, event, [pending, made], function, waiter))
    assert reader_of(python).awaited(frames) == Awaited(event, [pending], every)
    # before it waits, and in another function
    assert reader_of(python).awaited(frames_of(python, thread_pools.waiting_frame(python, 0, [pending]))) is None
    assert reader_of(python).awaited(frames_of(python, thread_pools.run_frame(python, 0))) is None


@pytest.mark.parametrize(("most", "complete"), [(1, True), (2, False)])
def test_workers_of_a_pool(python: FakePython, most: int, complete: bool) -> None:
    queue = thread_pools.queue(python, [])
    executor = thread_pools.executor(python, most, [thread_pools.thread(python, ME)])
    frames = frames_of(python, thread_pools.worker_frame(python, executor, queue))
    workers = reader_of(python).workers(frames)
    assert workers is not None
    assert (workers.queue, workers.executor, workers.idents, workers.complete) == (
        queue, executor, frozenset((ME,)), complete)


def test_worker_that_has_ended_keeps_its_place_in_the_pool(python: FakePython) -> None:
    ended = python.instance("Thread", _name=python.string("ended"))
    executor = thread_pools.executor(python, 2, [thread_pools.thread(python, ME), ended])
    frames = frames_of(python, thread_pools.worker_frame(python, executor, thread_pools.queue(python, [])))
    workers = reader_of(python).workers(frames)
    assert workers is not None
    assert (workers.idents, workers.complete) == (frozenset((ME,)), True)


def test_workers_of_a_pool_that_is_gone(python: FakePython) -> None:
    none = python.builtin("NoneType", "PyObject")
    frames = frames_of(python, thread_pools.worker_frame(python, none, thread_pools.queue(python, [])))
    workers = reader_of(python).workers(frames)
    assert workers is not None
    assert (workers.executor, workers.idents, workers.complete) == (0, None, False)


@pytest.mark.parametrize("workers", [0, 2])
def test_calls_of_a_pool_of_processes(python: FakePython, workers: int) -> None:
    reader, futures = reader_of(python), [thread_pools.future(python) for _ in range(2)]
    items = [thread_pools.item(python, future, python.function("child")) for future in futures]
    waiting = frames_of(python, thread_pools.manager_frame(python, workers, items))
    assert reader.managed(waiting) == Managed([Call(future, "child") for future in futures], workers)
    # it does not wait
    assert reader.managed(waiting[1:]) is None
    assert reader.managed(waiting[2:]) is None
    assert reader.managed(waiting[:2]) is None
