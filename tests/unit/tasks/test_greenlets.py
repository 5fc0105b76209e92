from __future__ import annotations

from gdbext.model import Greenlet, Problem
from gdbext.tasks.greenlets import find_greenlets
from gdbext.threads.findings import Findings
from tests.support.fake_greenlets import FakeGreenlets


def look(fake: FakeGreenlets) -> tuple[tuple[Greenlet, ...], list[Problem]]:
    findings = Findings()
    side = fake.side(findings)
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
