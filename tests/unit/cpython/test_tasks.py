from __future__ import annotations

import random
from dataclasses import replace

import pytest

from gdbext.cpython import generators, tasks
from gdbext.cpython.frames import FrameReader
from gdbext.cpython.objects import Objects
from gdbext.cpython.tasks import AsyncioReader, TaskState, uses_asyncio, with_asyncio_offsets
from gdbext.errors import CorruptStructure, GdbextError, MemoryUnreadable, UnknownLayout
from gdbext.inferior.protocol import Module, Section
from gdbext.layout.table import Layouts
from tests.support import combinations, versions
from tests.support.fake_memory import FakeMemory
from tests.support.fake_python import FakePython, cpython_layouts
from tests.support.fake_tasks import VERSIONS, FakeTasks

WITH_LISTS = versions.from_minor(14)
WITH_SETS = tuple(version for version in VERSIONS if version not in WITH_LISTS)


@pytest.fixture(params=VERSIONS)
def fake(request: pytest.FixtureRequest) -> FakeTasks:
    return FakeTasks(request.param)


def functions(fake: FakeTasks, coroutine: int) -> tuple[list[str], str | None]:
    chain = fake.reader().generators.await_chain(coroutine)
    return [raw.frame.function for raw in chain.frames], chain.problem


# -- which tasks there are ----------------------------------------------------------------------------------------

def test_tasks_are_found_once(fake: FakeTasks) -> None:
    coroutine = fake.coroutine("work")
    known = [fake.task(f"t{i}", coroutine) for i in range(20)]
    other = fake.task("other", coroutine, scheduled=False)
    fake.publish(others=[other, known[0]])
    found, problems = fake.reader().tasks((fake.tstate,))
    assert problems == []
    assert sorted(found) == sorted([*known, other])


@pytest.mark.parametrize("version", WITH_LISTS)
def test_tasks_of_a_thread_that_has_ended_are_in_the_list_of_the_interpreter(version: str) -> None:
    fake = FakeTasks(version)
    left = fake.task("left", fake.coroutine("work"), scheduled=False)
    fake.publish()
    fake.list_of(fake.interpreter_list(), [left])
    assert fake.reader().tasks((fake.tstate,)) == ([left], [])


@pytest.mark.parametrize("version", versions.before(14, versions.from_minor(12)))
def test_tasks_that_run_eagerly(version: str) -> None:
    fake = FakeTasks(version)
    eager = fake.task("eager", fake.coroutine("work"), scheduled=False)
    fake.publish(eager=[eager])
    assert fake.reader().tasks((fake.tstate,)) == ([eager], [])


@pytest.mark.parametrize("version", WITH_LISTS)
def test_tasks_in_the_c_module_only(version: str) -> None:
    """A task that is not of the module's own class, in a set that only the module has."""
    fake = FakeTasks(version)
    foreign = fake.task("foreign", fake.coroutine("work"), scheduled=False)
    fake.publish()
    state = fake.build.new("asyncio_state", weak_tasks=fake.weak_set([foreign]))
    module = fake.module_object()
    fake.build.put("PyModuleObject", module, md_state=state)
    modules = fake.namespace(**{"asyncio.tasks": fake.module_object(), "_asyncio": module})
    fake.build.put("PyInterpreterState", fake.interp, modules=modules)
    assert fake.reader().tasks((fake.tstate,)) == ([foreign], [])
    blocked = fake.namespace(**{"asyncio.tasks": fake.module_object(), "_asyncio": fake.none})
    fake.build.put("PyInterpreterState", fake.interp, modules=blocked)
    assert fake.reader().tasks((fake.tstate,)) == ([], []), "a blocked import is not a module"


@pytest.mark.parametrize("version", WITH_LISTS)
def test_damaged_list_keeps_the_tasks_before_it(version: str) -> None:
    fake = FakeTasks(version)
    coroutine = fake.coroutine("work")
    known = [fake.task(f"t{i}", coroutine) for i in range(5)]
    fake.publish()
    offset = fake.layouts["TaskObj"].offset("task_node")
    fake.build.put("llist_node", known[2] + offset, prev=0x1234)
    found, problems = fake.reader().tasks((fake.tstate,))
    assert found == known[:3]
    assert problems == [f"a list of tasks is not linked back (at {known[2] + offset:#x})"]


@pytest.mark.parametrize("version", WITH_LISTS)
def test_endless_list_is_cut(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "MAX_TASKS", 50)
    fake = FakeTasks(version)
    coroutine = fake.coroutine("work")
    known = [fake.task(f"t{i}", coroutine) for i in range(80)]
    fake.publish()
    found, problems = fake.reader().tasks((fake.tstate,))
    assert found == known[:50]
    assert problems == ["there are more than 50 tasks"]


@pytest.mark.parametrize("mask", [-1, 1 << 20, 1 << 62])
def test_an_impossible_set(mask: int) -> None:
    fake = FakeTasks("3.11.7")
    at = fake.build.put("PySetObject", fake.object_of("set"), mask=mask, table=0x1000)
    with pytest.raises(CorruptStructure, match="a set of"):
        list(Objects(fake.memory, fake.layouts).set_items(at))


def test_a_large_set(fake: FakeTasks) -> None:
    items = [fake.none + i for i in range(2100)]
    assert list(Objects(fake.memory, fake.layouts).set_items(fake.set_of(items, deleted=3))) == items


def test_a_process_that_has_not_imported_asyncio(fake: FakeTasks) -> None:
    objects = Objects(fake.memory, fake.layouts)
    assert not uses_asyncio(objects, fake.interp)
    fake.publish()
    assert uses_asyncio(objects, fake.interp)


# -- loops ----------------------------------------------------------------------------------------------------------

def test_running_loop_and_task(fake: FakeTasks) -> None:
    current = fake.task("current", fake.coroutine("work"))
    fake.publish(current=current)
    reader = fake.reader()
    loop, task = reader.running(fake.tstate)
    assert loop == fake.loop
    assert [task] if fake.has_lists else reader.current_tasks() == [current]
    assert reader.current_tasks() == ([] if fake.has_lists else [current])


def test_a_loop_that_has_stopped(fake: FakeTasks) -> None:
    assert fake.reader().running(fake.tstate) == (None, None)
    fake.loop = fake.none if fake.version_tuple < (3, 13) else 0
    fake.publish()
    assert fake.reader().running(fake.tstate) == (None, None)


def test_thread_recorded_in_a_loop(fake: FakeTasks) -> None:
    reader = fake.reader()
    assert reader.thread_id(fake.instance("Loop", _thread_id=fake.integer(0x7F12_3456_7000))) == 0x7F12_3456_7000
    assert reader.thread_id(fake.instance("Stopped", _thread_id=fake.none)) is None
    assert reader.thread_id(fake.instance("Other", _other=fake.none)) is None


def test_descriptors_that_a_loop_watches(fake: FakeTasks) -> None:
    reader = fake.reader()
    files = fake.namespace(a=fake.none, b=fake.none, c=fake.none)
    selector = fake.instance("EpollSelector", _fd_to_key=files)
    assert reader.watched(fake.instance("Loop", _selector=selector, _internal_fds=fake.integer(1))) == 2
    assert reader.watched(fake.instance("Loop", _selector=selector, _internal_fds=fake.integer(3))) == 0
    # a loop of another library
    assert reader.watched(fake.instance("Loop", _other=fake.none)) is None
    other = fake.instance("Selector", _fd_to_key=fake.none)
    assert reader.watched(fake.instance("Loop", _selector=other, _internal_fds=fake.integer(1))) is None


# -- a task ---------------------------------------------------------------------------------------------------------

def test_a_task(fake: FakeTasks) -> None:
    coroutine, future = fake.coroutine("work"), fake.future()
    at = fake.task("worker", coroutine, waiter=future)
    name = "worker" if "task_name" in fake.layouts["TaskObj"] else None
    reader = fake.reader()
    assert reader.task(at) == TaskState(at, name, fake.loop, "pending", coroutine, future)
    assert reader.is_task(at)
    assert not reader.is_task(future)
    assert reader.is_pending(at)
    assert reader.is_pending(future)


@pytest.mark.parametrize(("number", "state"), [(0, "pending"), (1, "cancelled"), (2, "done")])
def test_states(fake: FakeTasks, number: int, state: str) -> None:
    at = fake.task("t", fake.coroutine("work"), waiter=fake.none, state=number)
    read = fake.reader().task(at)
    assert (read.state, read.waiter) == (state, None)
    assert fake.reader().is_pending(fake.future(state=number)) == (state == "pending")


def test_unused_default_name_is_a_number() -> None:
    fake = FakeTasks("3.13.0")
    assert fake.reader().task(fake.task(12, fake.coroutine("work"))).name == "Task-12"


def test_task_in_an_impossible_state(fake: FakeTasks) -> None:
    at = fake.task("t", fake.coroutine("work"), state=7)
    with pytest.raises(CorruptStructure, match="contradicts"):
        fake.reader().task(at)


def test_a_task_of_a_derived_class(fake: FakeTasks) -> None:
    fake.task("t", fake.coroutine("work"))
    base = fake.type_object("_asyncio.Task")
    at = fake.object_of("MyTask", fake.layouts["TaskObj"].size + 16, base, tp_basicsize=9999)
    fake.build.put("TaskObj", at, task_loop=fake.loop, task_coro=fake.coroutine("work"))
    assert fake.reader().task(at).state == "pending"


def test_task_of_another_size_is_an_unknown_layout(fake: FakeTasks) -> None:
    at = fake.task("t", fake.coroutine("work"))
    fake.build.put("PyTypeObject", fake.type_object("_asyncio.Task"), tp_basicsize=fake.layouts["TaskObj"].size + 8)
    with pytest.raises(UnknownLayout, match="bytes, in no known layout"):
        fake.reader().task(at)


def test_a_task_written_in_python(fake: FakeTasks) -> None:
    coroutine, future = fake.coroutine("work"), fake.instance("Future")
    at = fake.python_task(coroutine, _fut_waiter=future, _name=fake.string("slow"))
    done = fake.python_task(coroutine, _fut_waiter=fake.none, _state=fake.string("FINISHED"))
    reader = fake.reader()
    assert reader.is_task(at)
    assert reader.task(at) == TaskState(at, "slow", fake.loop, "pending", coroutine, future)
    assert reader.task(done) == TaskState(done, None, fake.loop, "done", coroutine, None)
    assert (reader.is_pending(at), reader.is_pending(done)) == (True, False)
    strange = fake.python_task(coroutine, _state=fake.string("UNHEARD"))
    with pytest.raises(CorruptStructure, match="not the state"):
        reader.task(strange)


def test_python_tasks_are_read_without_the_layout_of_c_tasks(fake: FakeTasks) -> None:
    """The interpreter's own debug information has no `TaskObj` where `_asyncio` is not loaded."""
    coroutine = fake.coroutine("slow")
    at = fake.python_task(coroutine)
    c_task = fake.task("fast", coroutine)
    fake.publish()
    structs = {name: struct for name, struct in fake.layouts.structs.items() if name != "TaskObj"}
    fake.layouts = replace(fake.layouts, structs=structs, source="dwarf")
    with pytest.raises(UnknownLayout, match="not decoded"):
        fake.reader()  # the C module is loaded, so there may be tasks of its own
    modules = fake.namespace(**{"asyncio.tasks": fake.module_object(), "_asyncio": fake.none})
    fake.build.put("PyInterpreterState", fake.interp, modules=modules)
    reader = fake.reader()
    assert reader.task(at) == TaskState(at, None, fake.loop, "pending", coroutine, None)
    with pytest.raises(UnknownLayout, match="TaskObj"):
        reader.task(c_task)


def test_object_that_is_not_a_task(fake: FakeTasks) -> None:
    with pytest.raises(CorruptStructure, match="a Thing among the tasks"):
        fake.reader().task(fake.instance("Thing"))


def test_unsupported_version() -> None:
    memory, layouts = FakeMemory(), cpython_layouts("3.6.15")
    objects = Objects(memory, layouts)
    with pytest.raises(UnknownLayout, match="not decoded"):
        AsyncioReader(memory, layouts, objects, FrameReader(memory, layouts, objects), 0x1000)


# -- coroutines -----------------------------------------------------------------------------------------------------

def test_a_chain_of_all_kinds(fake: FakeTasks) -> None:
    future = fake.object_of("_asyncio.FutureIter")
    at = fake.coroutine("wait", future)
    at = fake.coroutine("old", at, "generator")
    at = fake.coroutine("numbers", fake.stand_in("coroutine_wrapper", "PyCoroWrapper", "cw_coroutine", at),
                        "async_generator")
    at = fake.stand_in("async_generator_asend", "PyAsyncGenASend", "ags_gen", at)
    if fake.version_tuple >= (3, 10):
        at = fake.stand_in("anext_awaitable", "anextawaitableobject", "wrapped", at)
    at = fake.coroutine("iterate", at, variables={"value": fake.none})
    at = fake.stand_in("async_generator_athrow", "PyAsyncGenAThrow", "agt_gen",
                       fake.coroutine("closing", at, "async_generator"))
    at = fake.coroutine("main", at, under=[fake.none, fake.none])
    assert functions(fake, at) == (["main", "closing", "iterate", "numbers", "old", "wait"], None)


def test_a_plain_yield_delegates_to_nothing(fake: FakeTasks) -> None:
    """As in ``asyncio.sleep(0)``: the value on top of the stack is not awaited."""
    inner = fake.coroutine("inner")
    at = fake.coroutine("bare", 0, "generator", under=[inner])
    assert functions(fake, at) == (["bare"], None)


def test_a_coroutine_that_has_ended(fake: FakeTasks) -> None:
    at = fake.coroutine("over")
    if fake.version_tuple < (3, 11):
        fake.build.put("PyGenObject", at, gi_frame=0)
    else:
        erase_frame(fake, at)
        fake.build.put("PyGenObject", at, gi_frame_state=5 if fake.version_tuple >= (3, 15) else 4)
    assert functions(fake, at) == ([], None)


def test_coroutine_with_a_damaged_frame(fake: FakeTasks) -> None:
    at = fake.coroutine("lost")
    if fake.version_tuple < (3, 11):
        fake.build.put("PyGenObject", at, gi_frame=0x10)
    else:
        erase_frame(fake, at)
    names, problem = functions(fake, fake.coroutine("work", at))
    assert names == ["work"]
    assert problem == f"the frame of the coroutine at {at:#x} cannot be read"


def erase_frame(fake: FakeTasks, coroutine: int) -> None:
    frame = coroutine + fake.layouts["PyGenObject"].offset("gi_iframe")
    fake.memory.write(frame, bytes(fake.layouts["_PyInterpreterFrame"].offset("localsplus")))


def test_coroutines_in_a_circle(fake: FakeTasks) -> None:
    first = fake.coroutine("first", fake.none)
    second = fake.coroutine("second", first)
    fake.memory.u64(fake.awaited_at[first], second)
    names, problem = functions(fake, first)
    assert names == ["first", "second"]
    assert problem == "the coroutines await one another in a circle"


def readable(fake: FakeTasks, address: int) -> int:
    try:
        return int.from_bytes(fake.memory.read(address, 8), "little")
    except MemoryUnreadable:
        return 0


def test_a_long_chain_is_cut(fake: FakeTasks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generators, "MAX_DEPTH", 10)
    at = fake.coroutine("last")
    for _ in range(20):
        at = fake.coroutine("more", at)
    names, problem = functions(fake, at)
    assert len(names) == 10
    assert problem == "cut after 10 coroutines"


def test_unmapped_coroutine(fake: FakeTasks) -> None:
    names, problem = functions(fake, fake.coroutine("last", 0x1000))
    assert names == ["last"]
    assert problem is not None
    assert "cannot read" in problem


def test_running_coroutine(fake: FakeTasks) -> None:
    inner = fake.coroutine("inner")
    at = fake.coroutine("work", inner)
    reader = fake.reader()
    assert not reader.is_executing(at)
    fake.execute(at)
    assert reader.is_executing(at)
    assert functions(fake, at) == (["work"], None), "what it has on its stack is not awaited"
    assert not reader.is_executing(fake.none)
    if fake.version_tuple < (3, 11):
        fake.build.put("PyGenObject", at, gi_frame=0)
        assert not reader.is_executing(at)


def test_frames_of_another_thread_are_not_returned(fake: FakeTasks) -> None:
    fake.stack(fake.tstate, [])
    assert fake.reader().running_frames(fake.tstate, fake.coroutine("work")) == ()
    assert fake.reader().running_frames(fake.tstate, fake.none) == ()


# -- futures --------------------------------------------------------------------------------------------------------

def test_callbacks_and_their_free_variables(fake: FakeTasks) -> None:
    outer = fake.future()
    first = fake.callback("/lib/asyncio/tasks.py", inner=fake.none, outer=outer)
    second, third = fake.callback("/app/job.py"), fake.none
    reader = fake.reader()
    assert list(reader.callbacks(fake.future([first, second, third]))) == [first, second, third]
    assert list(reader.callbacks(fake.future())) == []
    pair = fake.list_object(fake.tuple_object(first, fake.none))
    assert list(reader.callbacks(fake.instance("Future", _callbacks=pair))) == [first]
    assert reader.free_variables(first) == ("/lib/asyncio/tasks.py", {"inner": fake.none, "outer": outer})
    assert reader.free_variables(second) == ("/app/job.py", {})
    with pytest.raises(CorruptStructure, match="not a Python function"):
        reader.free_variables(third)


@pytest.mark.parametrize("size", [-1, -(1 << 40)])
def test_an_impossible_list(fake: FakeTasks, size: int) -> None:
    at = fake.list_object(fake.none)
    fake.build.put("PyVarObject", at, ob_size=size)
    with pytest.raises(CorruptStructure):
        Objects(fake.memory, fake.layouts).list_start(at, 1)


def test_a_list_is_cut(fake: FakeTasks) -> None:
    assert Objects(fake.memory, fake.layouts).list_start(fake.list_object(1, 2, 3, 4), 2) == (1, 2)


# -- what the module states of itself -------------------------------------------------------------------------------

def stated(fake: FakePython, **changes: int) -> tuple[Layouts, Module]:
    """A table, and a module with other offsets."""
    known, task = fake.layouts["_Py_AsyncioModuleDebugOffsets"], fake.layouts["TaskObj"]
    values = {"asyncio_task_object.size": task.size, "asyncio_task_object.task_name": task.offset("task_name"),
              "asyncio_task_object.task_coro": task.offset("task_coro"),
              "asyncio_task_object.task_node": task.offset("task_node"),
              "asyncio_interpreter_state.asyncio_tasks_head": 0x4440,
              "asyncio_thread_state.asyncio_running_loop": 0x330, "asyncio_thread_state.asyncio_running_task": 0x338,
              "asyncio_thread_state.asyncio_tasks_head": 0x340, **changes}
    at = fake.build.new(known.name, **values)
    return fake.layouts, Module("/lib/_asyncio.so", (Section(".AsyncioDebug", at, at + known.size),))


@pytest.mark.parametrize("version", WITH_LISTS)
def test_offsets_of_the_module_are_applied(version: str) -> None:
    fake = FakeTasks(version)
    layouts, module = stated(fake)
    found = with_asyncio_offsets(fake.memory, layouts, module, [Module("/lib/other.so", ()), module])
    assert found["PyInterpreterState"].offset("asyncio_tasks_head") == 0x4440
    assert found["_PyThreadStateImpl"].offset("asyncio_running_loop") == 0x330
    assert found["_PyThreadStateImpl"].offset("asyncio_running_task") == 0x338
    assert found["PyInterpreterState"].offset("next") == layouts["PyInterpreterState"].offset("next")
    other = Module("/lib/other.so", ())
    assert with_asyncio_offsets(fake.memory, layouts, other, [other]) is layouts


@pytest.mark.parametrize("version", WITH_LISTS)
@pytest.mark.parametrize("changes", [
    {"asyncio_task_object.size": 8}, {"asyncio_interpreter_state.asyncio_tasks_head": 1 << 40},
    {"asyncio_thread_state.asyncio_tasks_head": 0}])
def test_impossible_offsets_are_rejected(version: str, changes: dict[str, int]) -> None:
    fake = FakeTasks(version)
    layouts, module = stated(fake, **changes)
    with pytest.raises(UnknownLayout):
        with_asyncio_offsets(fake.memory, layouts, module, [module])


def test_version_without_offsets() -> None:
    fake = FakeTasks("3.13.0")
    assert with_asyncio_offsets(fake.memory, fake.layouts, fake.module, [fake.module]) is fake.layouts


# -- damage ---------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("seed", combinations.seeds(6))
def test_damaged_memory_raises_only_gdbext_errors(fake: FakeTasks, seed: int) -> None:
    future = fake.object_of("_asyncio.FutureIter")
    known = [fake.task(f"t{i}", fake.coroutine("outer", fake.coroutine("inner", future), variables={"i": fake.none}),
                       callbacks=[fake.callback("/lib/asyncio/tasks.py", outer=future)] * 2) for i in range(8)]
    fake.publish(current=known[0])
    low, high = fake.none, known[-1] + 4096
    chooser = random.Random(seed)
    for _ in range(400):
        at = chooser.randrange(low, high) & ~7
        value = chooser.choice([0, 1, chooser.getrandbits(64), chooser.randrange(low, high), chooser.getrandbits(20)])
        if readable(fake, at):
            fake.memory.u64(at, value)
    reader = fake.reader()
    found, _ = reader.tasks((fake.tstate,))
    for address in {*found, *known}:
        try:
            state = reader.task(address)
            reader.generators.await_chain(state.coroutine)
            for callback in reader.callbacks(address):
                reader.free_variables(callback)
        except GdbextError:
            continue
