from __future__ import annotations

import dataclasses
import struct
import time

import pytest

from gdbext.cpython.objects import Objects
from gdbext.cpython.runtime import (
    InterpreterState,
    PythonRuntime,
    ThreadState,
    find_runtimes,
    iter_interpreters,
    thread_names,
)
from gdbext.errors import GdbextError, RuntimeNotFound
from gdbext.inferior.protocol import Module, Section
from gdbext.model import PythonState
from gdbext.narrate.reasons import explain
from tests.support import versions
from tests.support.fake_elf import fake_elf
from tests.support.fake_memory import FakeMemory, NoiseMemory
from tests.support.fake_python import VERSIONS, FakePython

PTHREAD = 0x7F00_1234_5700


@pytest.fixture(params=VERSIONS)
def python(request: pytest.FixtureRequest) -> FakePython:
    made = FakePython(FakeMemory(), str(request.param))
    made.runtime()
    return made


def find(python: FakePython) -> PythonRuntime:
    found, problems = find_runtimes(python.memory, [python.module], "x86_64")
    assert problems == []
    runtime, = found
    return runtime


def interpreters(python: FakePython) -> list[InterpreterState]:
    return list(iter_interpreters(python.memory, find(python)))


# -- finding --------------------------------------------------------------------------------------------------

def test_runtime_is_found_and_recognised(python: FakePython) -> None:
    tstate = python.thread(python.interpreter(), PTHREAD)
    runtime = find(python)
    assert (runtime.address, runtime.module) == (python.runtime_address, python.module)
    assert (runtime.version, runtime.build, runtime.note) == (python.version, "default", None)
    assert runtime.layouts.source == ("debug-offsets" if python.version_tuple >= (3, 13) else "table")
    interpreter, = interpreters(python)
    state: PythonState | None = "detached" if python.version_tuple >= (3, 13) else None
    breaker = 0 if python.version_tuple >= (3, 13) else None
    holds = False if python.version_tuple >= (3, 13) else None
    requested = False if python.version_tuple >= (3, 15) else None
    assert interpreter.threads == (
        ThreadState(tstate, interpreter.address, PTHREAD, state, breaker, holds, requested),)
    assert interpreter.problem is None
    assert interpreter.gil is not None
    assert interpreter.gil.state == "free"


def test_not_initialised_yet(python: FakePython) -> None:
    assert find(python).version == python.version
    assert interpreters(python) == []


def test_no_python() -> None:
    with pytest.raises(RuntimeNotFound):
        find_runtimes(FakeMemory(), [Module("/bin/sh", ()), Module("/x", (Section(".text", 0, 64),))], "x86_64")


def test_two_runtimes_in_one_process() -> None:
    memory = FakeMemory()
    first, second = FakePython(memory, "3.9.18"), FakePython(memory, "3.12.1", 0x5656_0000_0000)
    modules = [first.runtime(), second.runtime("/opt/app/libpython3.12.so.1.0")]
    for python in (first, second):
        python.thread(python.interpreter(), PTHREAD)
    found, problems = find_runtimes(memory, modules, "x86_64")
    assert [runtime.version for runtime in found] == ["3.9.18", "3.12.1"]
    assert problems == []


def test_unreadable_runtime_does_not_hide_the_other() -> None:
    memory = FakeMemory()
    good = FakePython(memory, "3.12.1")
    modules = [Module("/usr/lib/libpython3.4.so", (Section(".PyRuntime", 0x1000, 0x2000),)), good.runtime()]
    good.interpreter()
    found, problems = find_runtimes(memory, modules, "x86_64")
    assert [runtime.version for runtime in found] == ["3.12.1"]
    assert len(problems) == 1
    assert "libpython3.4.so" in str(problems[0])


def test_runtime_by_symbol_without_a_section() -> None:
    memory = FakeMemory()
    python = FakePython(memory, "3.9.18")
    python.runtime()
    python.interpreter()
    base = python.runtime_address - 0x10000
    _, module = fake_elf(base, {"_PyRuntime": (0x10000, 656)}, "/usr/lib/libpython3.9.so.1.0",
                         python.module.sections[1:], memory=memory)
    found, _ = find_runtimes(memory, [module], "x86_64")
    assert [runtime.address for runtime in found] == [python.runtime_address]


@pytest.mark.parametrize("name", ["libpython3.11.so.1.0", "server"])
def test_version_is_exported_since_3_11(name: str) -> None:
    memory = FakeMemory()
    python = FakePython(memory, "3.11.7")
    python.runtime()
    python.interpreter()
    base = python.runtime_address - 0x10000
    memory.map(base + 0x2000, struct.pack("<Q", 0x030B07F0))
    _, module = fake_elf(base, {"Py_Version": (0x2000, 8)}, f"/usr/lib/{name}", python.module.sections[:1],
                         memory=memory)
    found, problems = find_runtimes(memory, [module], "x86_64")
    assert ([runtime.version for runtime in found], problems) == (["3.11.7"], [])


@pytest.mark.parametrize(("texts", "name", "version"), [
    (b"\x003.9.18\0", "python3.9", "3.9.18"), (b"\x003.9.18+\0", "python3.9", "3.9.18"),
    (b"\x003.9.18\0\x003.40.1\0", "server", "3.9.18"), (b"\x003.40.1\0\x003.9.18\0", "python3.9", "3.9.18"),
], ids=["plain", "from a checkout", "embedded, beside SQLite", "beside SQLite"])
def test_version_among_the_constants(texts: bytes, name: str, version: str) -> None:
    python = FakePython(FakeMemory(), "3.9.18")
    python.runtime(f"/usr/bin/{name}")
    python.memory.write(python.module.sections[2].start, texts)
    python.interpreter()
    assert find(python).version == version


def test_version_by_the_file_name_as_last_resort() -> None:
    python = FakePython(FakeMemory(), "3.12.1")
    python.runtime()
    python.memory.write(python.module.sections[2].start, bytes(64))
    python.interpreter()
    runtime = find(python)
    assert runtime.version == "3.12.0"
    assert runtime.note is not None


def test_undeterminable_version() -> None:
    python = FakePython(FakeMemory(), "3.12.1")
    python.runtime("/opt/server")
    python.interpreter()
    found, problems = find_runtimes(python.memory, [python.module], "x86_64")
    assert found == []
    assert "version" in str(problems[0])


def test_nearest_micro_version_is_noted() -> None:
    python = FakePython(FakeMemory(), "3.13.0")
    python.runtime()
    python.memory.u64(python.runtime_address + 8, 0x030D02F0)  # 3.13.2, for which there is no table
    python.thread(python.interpreter(), PTHREAD)
    runtime = find(python)
    assert runtime.version == "3.13.2"
    assert runtime.note is not None
    assert "3.13.2" in explain(runtime.note)


def test_version_without_any_table() -> None:
    python = FakePython(FakeMemory(), "3.13.0")
    python.runtime()
    python.memory.u64(python.runtime_address + 8, 0x033200F0)  # 3.50.0
    found, problems = find_runtimes(python.memory, [python.module], "x86_64")
    assert found == []
    assert "3.50.0" in str(problems[0])


@pytest.mark.parametrize("number", [0, 0x02070000, 0x04000000, 1 << 63])
def test_impossible_version(number: int) -> None:
    python = FakePython(FakeMemory(), "3.13.0")
    python.runtime()
    python.memory.u64(python.runtime_address + 8, number)
    found, problems = find_runtimes(python.memory, [python.module], "x86_64")
    assert found == []
    assert len(problems) == 1


@pytest.mark.parametrize("damage", ["interpreter", "back pointer", "previous", "thread id", "gil", "id"])
def test_memory_that_contradicts_the_table(python: FakePython, damage: str) -> None:
    interpreter = python.interpreter()
    tstate = python.thread(interpreter, PTHREAD)
    put = python.build.put
    if damage == "interpreter":
        put("_PyRuntimeState", python.runtime_address, interpreters_head=0x1234)
    elif damage == "back pointer":
        put("PyThreadState", tstate, interp=interpreter + 8)
    elif damage == "previous":
        put("PyThreadState", tstate, prev=tstate)
    elif damage == "thread id":
        put("PyThreadState", tstate, thread_id=PTHREAD + 1)
    elif damage == "gil":
        put("_gil_runtime_state", python.gil_of(interpreter), locked=77)
    else:
        put("PyInterpreterState", interpreter, id=-3)
    found, problems = find_runtimes(python.memory, [python.module], "x86_64")
    assert found == []
    assert "no layout fits" in str(problems[0])


@pytest.mark.parametrize("version", versions.from_minor(13))
def test_debug_offsets_of_the_process_are_laid_over_the_table(version: str) -> None:
    python = FakePython(FakeMemory(), version)
    python.runtime()
    python.thread(python.interpreter(), PTHREAD)
    # a build that keeps the line number elsewhere, and the rest where it was
    python.build.put("_Py_DebugOffsets", python.runtime_address, **{"code_object.firstlineno": 0x90})
    runtime = find(python)
    assert (runtime.layouts.source, runtime.note) == ("debug-offsets", None)
    assert runtime.layouts["PyCodeObject"].offset("co_firstlineno") == 0x90
    for struct_name, members in (("PyThreadState", ("thread_id", "interp", "next")), ("PyCodeObject", ("co_name",)),
                                 ("_gil_runtime_state", ("locked", "last_holder", "cond"))):
        for member in members:
            assert runtime.layouts[struct_name][member] == python.layouts[struct_name][member]


def test_impossible_debug_offsets() -> None:
    python = FakePython(FakeMemory(), "3.13.0")
    python.runtime()
    python.build.put("_Py_DebugOffsets", python.runtime_address, **{"thread_state.next": 1 << 40})
    found, problems = find_runtimes(python.memory, [python.module], "x86_64")
    assert found == []
    assert "thread_state.next" in str(problems[0])


# -- interpreters and threads ---------------------------------------------------------------------------------

def test_threads_newest_first(python: FakePython) -> None:
    interpreter = python.interpreter()
    made = [python.thread(interpreter, PTHREAD + 0x1000 * i) for i in range(5)]
    found, = interpreters(python)
    assert [thread.address for thread in found.threads] == made[::-1]
    assert found.problem is None


def test_interpreters_by_ascending_id(python: FakePython) -> None:
    first = python.interpreter(0)
    second = python.interpreter(1, following=first)
    python.interpreter(2, following=second)
    assert [found.id for found in interpreters(python)] == [0, 1, 2]


def test_gil_holder(python: FakePython) -> None:
    interpreter = python.interpreter()
    tstate = python.thread(interpreter, PTHREAD)
    python.take_gil(interpreter, tstate)
    found, = interpreters(python)
    assert found.gil is not None
    assert (found.gil.state, found.gil.holder) == ("held", tstate)
    assert found.drop_requested is False


def test_drop_request(python: FakePython) -> None:
    interpreter = python.interpreter()
    tstate = python.thread(interpreter, PTHREAD)
    python.take_gil(interpreter, tstate)
    if python.version_tuple >= (3, 13):
        python.build.put("PyThreadState", tstate, eval_breaker=0x101)
    else:
        python.build.put("PyInterpreterState", interpreter, gil_drop_request=1)
    found, = interpreters(python)
    assert found.drop_requested is True


def test_drop_request_of_a_free_gil_means_nothing(python: FakePython) -> None:
    interpreter = python.interpreter()
    tstate = python.thread(interpreter, PTHREAD)
    if python.version_tuple >= (3, 13):
        python.build.put("PyThreadState", tstate, eval_breaker=1)
    else:
        python.build.put("PyInterpreterState", interpreter, gil_drop_request=1)
    found, = interpreters(python)
    assert found.drop_requested is None


def test_interpreters_that_share_a_gil() -> None:
    python = FakePython(FakeMemory(), "3.12.1")
    python.runtime()
    main = python.interpreter(0)
    python.interpreter(1, following=main)
    other = python.interpreter(2, following=int.from_bytes(python.memory.read(
        python.runtime_address + python.layouts["_PyRuntimeState"].offset("interpreters_head"), 8), "little"))
    python.build.put("PyInterpreterState", other, gil=python.gil_of(main), own_gil=0)
    found = interpreters(python)
    gils = [interpreter.gil.address if interpreter.gil else None for interpreter in found]
    assert gils[0] == gils[2] != gils[1]


@pytest.mark.parametrize(("value", "state"), [(0, "detached"), (1, "attached"), (2, "suspended"), (9, None)])
def test_states_of_threads(value: int, state: str | None) -> None:
    python = FakePython(FakeMemory(), "3.13.0")
    python.runtime()
    python.thread(python.interpreter(), PTHREAD, state=value)
    found, = interpreters(python)
    assert found.threads[0].state == state


@pytest.mark.parametrize("version", versions.from_minor(13))
def test_stop_the_world(version: str) -> None:
    python = FakePython(FakeMemory(), version)
    python.runtime()
    interpreter = python.interpreter()
    tstate = python.thread(interpreter, PTHREAD)
    at = python.build.member("PyInterpreterState", interpreter, "stoptheworld")
    idle = interpreters(python)[0].stop_the_world
    assert idle is not None
    assert (idle.address, idle.requested) == (at, False)
    python.build.put("_stoptheworld_state", at, requested=1, requester=tstate, thread_countdown=2)
    stop = interpreters(python)[0].stop_the_world
    assert stop is not None
    assert (stop.requested, stop.stopped, stop.requester, stop.countdown) == (True, False, tstate, 2)
    assert stop.event == python.build.member("_stoptheworld_state", at, "stop_event")


def test_no_stop_the_world_before_3_13() -> None:
    python = FakePython(FakeMemory(), "3.12.1")
    python.runtime()
    python.interpreter()
    assert interpreters(python)[0].stop_the_world is None


# -- damaged lists --------------------------------------------------------------------------------------------

def test_list_of_threads_with_a_loop(python: FakePython) -> None:
    interpreter = python.interpreter()
    made = [python.thread(interpreter, PTHREAD + 0x1000 * i) for i in range(4)]
    python.build.put("PyThreadState", made[0], next=made[2])
    found, = interpreters(python)
    assert [thread.address for thread in found.threads] == made[::-1]
    assert found.problem is not None
    assert "loop" in found.problem


def test_unreadable_list_of_threads(python: FakePython) -> None:
    interpreter = python.interpreter()
    made = [python.thread(interpreter, PTHREAD + 0x1000 * i) for i in range(2)]
    python.build.put("PyThreadState", made[0], next=0xDEAD_0000)
    found, = interpreters(python)
    assert len(found.threads) == 2
    assert found.problem is not None


def test_thread_of_another_interpreter_in_the_list(python: FakePython) -> None:
    interpreter = python.interpreter()
    made = [python.thread(interpreter, PTHREAD + 0x1000 * i) for i in range(3)]
    python.build.put("PyThreadState", made[0], interp=interpreter + 64)
    found, = interpreters(python)
    assert [thread.address for thread in found.threads] == [made[2], made[1]]
    assert found.problem is not None


def test_list_of_interpreters_with_a_loop(python: FakePython) -> None:
    first = python.interpreter(0)
    second = python.interpreter(1, following=first)
    python.build.put("PyInterpreterState", first, next=second)
    found = interpreters(python)
    assert [interpreter.id for interpreter in found] == [0, 1]
    assert [interpreter.problem is not None for interpreter in found] == [True, False]


def test_unreadable_list_of_interpreters_keeps_the_first(python: FakePython) -> None:
    only = python.interpreter(0)
    tstate = python.thread(only, PTHREAD)
    python.build.put("PyInterpreterState", only, next=0xDEAD_0000)
    found, = interpreters(python)
    assert [thread.address for thread in found.threads] == [tstate]
    assert found.problem is not None


@pytest.mark.parametrize("number", [-1 % (1 << 64), 1 << 63, 1 << 40])
def test_impossible_id_of_an_interpreter_ends_the_list(python: FakePython, number: int) -> None:
    """A damaged id was shown as it is, as a negative number."""
    damaged = python.interpreter(0)
    python.interpreter(1, following=damaged)
    python.build.put("PyInterpreterState", damaged, id=number)
    (found,) = interpreters(python)
    assert found.id == 1
    assert "impossible" in (found.problem or "")


def test_implausible_gil_of_a_second_interpreter() -> None:
    python = FakePython(FakeMemory(), "3.12.1")
    python.runtime()
    second = python.interpreter(1)
    python.build.put("PyInterpreterState", second, gil=0x10)
    python.interpreter(0, following=second)
    good, bad = interpreters(python)
    assert good.problem is None
    assert bad.gil is None
    assert bad.problem is not None
    assert "GIL" in bad.problem


# -- names ----------------------------------------------------------------------------------------------------

def give_names(python: FakePython, interpreter: int, names: dict[int, str], inline: bool = True) -> int:
    entries = [(python.integer(pthread), python.instance("Thread", inline, _name=python.string(name)))
               for pthread, name in names.items()]
    active = python.dictionary(entries, unicode_keys=False)
    modules = python.namespace(sys=python.module_object(), threading=python.module_object(_active=active))
    python.build.put("PyInterpreterState", interpreter, modules=modules)
    return active


def names_of(python: FakePython, interpreter: int) -> dict[int, str]:
    return thread_names(Objects(python.memory, python.layouts), interpreter)


@pytest.mark.parametrize("inline", [True, False])
def test_thread_names(python: FakePython, inline: bool) -> None:
    interpreter = python.interpreter()
    names = {PTHREAD: "MainThread", PTHREAD + 0x1000: "Größe 数据", PTHREAD + 0x2000: "worker-1"}
    give_names(python, interpreter, names, inline)
    assert names_of(python, interpreter) == names


def test_program_without_threading(python: FakePython) -> None:
    interpreter = python.interpreter()
    assert names_of(python, interpreter) == {}
    python.build.put("PyInterpreterState", interpreter, modules=python.namespace(sys=python.module_object()))
    assert names_of(python, interpreter) == {}


def test_name_that_is_not_a_string_is_skipped(python: FakePython) -> None:
    interpreter = python.interpreter()
    bad = python.string("x")
    python.build.put("PyASCIIObject", bad, state_kind=0)
    entries = [(python.integer(PTHREAD), python.instance("Thread", _name=bad)),
               (0x10, python.instance("Thread", _name=bad)),
               (python.integer(PTHREAD + 64), python.instance("Thread", _name=python.string("good")))]
    threading = python.module_object(_active=python.dictionary(entries, unicode_keys=False))
    python.build.put("PyInterpreterState", interpreter, modules=python.namespace(threading=threading))
    assert names_of(python, interpreter) == {PTHREAD + 64: "good"}


# -- noise ----------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("seed", range(20))
def test_noise(seed: int) -> None:
    memory = NoiseMemory(seed)
    start = time.process_time()
    for version in ("3.9", "3.11", "3.12"):
        at = 0x1000 * seed
        module = Module(f"/usr/lib/libpython{version}.so", (Section(".PyRuntime", at, at + 0x1000),))
        found, problems = find_runtimes(memory, [module], "x86_64")
        assert len(found) + len(problems) == 1
    assert time.process_time() - start < 20


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("seed", range(5))
def test_noise_after_a_recognised_runtime(version: str, seed: int) -> None:
    python = FakePython(FakeMemory(), version)
    python.runtime()
    runtime = find(python)
    memory = NoiseMemory(seed)
    start = time.process_time()
    for i in range(10):
        moved = dataclasses.replace(runtime, address=0x10000 + 8 * 1013 * i)
        try:
            for interpreter in iter_interpreters(memory, moved):
                thread_names(Objects(memory, python.layouts), interpreter.address)
        except GdbextError:
            continue
    assert time.process_time() - start < 20
