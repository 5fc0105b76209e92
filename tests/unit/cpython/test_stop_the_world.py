from __future__ import annotations

from collections.abc import Callable

import pytest

from gdbext.cpython.runtime import ThreadState, not_stopped
from gdbext.cpython.stop_the_world import StopState, interpreters_stop, runtimes_stop
from gdbext.inferior.protocol import Memory
from gdbext.layout.table import Layouts
from gdbext.model import PythonState
from tests.support.fake_memory import FakeMemory
from tests.support.fake_python import FREE_THREADED, FakePython

REQUESTER = 0x9000
Read = Callable[[Memory, Layouts, int], "StopState | None"]


def tstate(address: int, state: PythonState, asked: bool = True) -> ThreadState:
    return ThreadState(address, 0, 0x7F0000000000, state, 0x20 if asked else 0)


def stop(**changes: int) -> StopState:
    given: dict[str, int] = {"requested": True, "stopped": False, "countdown": 1, **changes}
    return StopState(0x100, 0x104, bool(given["requested"]), bool(given["stopped"]), given["countdown"], REQUESTER)


@pytest.mark.parametrize(("structure", "read"), [("PyInterpreterState", interpreters_stop),
                                                 ("_PyRuntimeState", runtimes_stop)])
@pytest.mark.parametrize("version", FREE_THREADED)
def test_state_of_an_interpreter_and_of_the_runtime(version: str, structure: str, read: Read) -> None:
    python = FakePython(FakeMemory(), version, build="free-threaded")
    at = python.build.new(structure)
    place = python.build.member(structure, at, "stoptheworld")
    python.build.put("_stoptheworld_state", place, requested=1, thread_countdown=3, requester=REQUESTER)
    event = python.build.member("_stoptheworld_state", place, "stop_event")
    assert read(python.memory, python.layouts, at) == StopState(place, event, True, False, 3, REQUESTER)
    assert read(python.memory, python.layouts, 0xDEAD_0000) is None


@pytest.mark.parametrize("members", [{"requested": 7, "requester": REQUESTER}, {"world_stopped": 0x40},
                                     {"thread_countdown": -1}])
def test_implausible_state(members: dict[str, int]) -> None:
    python = FakePython(FakeMemory(), FREE_THREADED[0], build="free-threaded")
    at = python.build.new("PyInterpreterState")
    python.build.put("_stoptheworld_state", python.build.member("PyInterpreterState", at, "stoptheworld"), **members)
    assert interpreters_stop(python.memory, python.layouts, at) is None


def test_builds_with_a_gil_never_stop_all_interpreters() -> None:
    python = FakePython(FakeMemory(), "3.13.0")
    assert runtimes_stop(python.memory, python.layouts, python.build.new("_PyRuntimeState")) is None


def test_threads_that_have_not_stopped() -> None:
    threads = [tstate(1, "attached"), tstate(2, "detached"), tstate(3, "suspended"), tstate(4, "attached", asked=False),
               tstate(REQUESTER, "attached")]
    assert [thread.address for thread in not_stopped(stop(), threads)] == [1]


@pytest.mark.parametrize("changes", [{"requested": 0}, {"stopped": 1}])
def test_stop_that_waits_for_no_thread(changes: dict[str, int]) -> None:
    assert not_stopped(stop(**changes), [tstate(1, "attached")]) == []
