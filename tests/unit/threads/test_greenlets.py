from __future__ import annotations

from gdbext.cpython.frames import FrameReader
from gdbext.cpython.objects import Objects
from gdbext.cpython.runtime import PythonRuntime, iter_interpreters
from gdbext.inferior.protocol import Module
from gdbext.model import Greenlet, Problem
from gdbext.threads.code import Code
from gdbext.threads.findings import Findings
from gdbext.threads.greenlets import find_greenlets
from gdbext.threads.python_side import Python, PythonSide, PythonThread
from tests.support.fake_greenlets import FakeGreenlets


def look(fake: FakeGreenlets) -> tuple[tuple[Greenlet, ...], list[Problem]]:
    fake.publish()
    at = fake.build.member("_PyRuntimeState", fake.runtime_address, "interpreters_head")
    runtime = PythonRuntime(fake.runtime_address, Module("/usr/lib/libpython.so", ()), fake.version, "default",
                            fake.layouts, at)
    objects = Objects(fake.memory, fake.layouts)
    interpreters = list(iter_interpreters(fake.memory, runtime))
    python = Python(runtime, objects, FrameReader(fake.memory, fake.layouts, objects), interpreters=interpreters)
    findings = Findings()
    tstates = [(python, tstate) for tstate in interpreters[0].threads]
    side = PythonSide(fake.memory, Code.__new__(Code), findings, [python], {4: PythonThread(tstates)}, [])
    return find_greenlets(side, findings), findings.problems


def test_greenlets_have_their_thread_and_frames() -> None:
    fake = FakeGreenlets("3.13.0")
    suspended = fake.suspended(("leave", 5))
    found, problems = look(fake)
    assert problems == []
    assert {(each.address, each.thread, each.state, each.is_main, tuple(frame.function for frame in each.stack))
            for each in found} == {(fake.main, 4, "current", True, ()), (suspended, 4, "suspended", False, ("leave",))}


def test_release_that_is_not_decoded_is_reported() -> None:
    found, (problem,) = look(FakeGreenlets("3.13.0", "1.1.3"))
    assert (found, problem.where, problem.what) == ((), "greenlets in interpreter 0", "not applicable")


def test_damaged_stack_is_reported_and_the_greenlet_shown() -> None:
    fake = FakeGreenlets("3.13.0")
    for _ in range(22):
        at = fake.suspended(("leave", 5))
        pimpl = int.from_bytes(fake.memory.read(at + fake.layouts["PyObject"].size + 16, 8), "little")
        frame = int.from_bytes(fake.memory.read(pimpl + 8 * 13, 8), "little")
        fake.build.put("PyFrameObject", frame, f_frame=0x10)
    found, problems = look(fake)
    assert len(found) == 23
    assert [problem.what for problem in problems] == ["unreadable"] * 21
    assert problems[-1].where == "greenlets"
