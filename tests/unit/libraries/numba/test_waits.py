from __future__ import annotations

import pytest

from gdbext.inferior.protocol import Module, Section
from gdbext.model.reasons import Reason, ReasonCode, because
from gdbext.snapshot import take_snapshot
from tests.support.fake_target import FakeTarget

LIBRARY = 0x7D00_0000_0000


def waits(state: int, library: str = "workqueue.cpython-311-x86_64-linux-gnu.so") -> tuple[str, Reason | None]:
    """What the only thread waits for, and why; it sleeps on the condition variable of a queue in this state."""
    target = FakeTarget()
    target.loaded.append(Module(f"/lib/{library}", (Section(".text", LIBRARY, LIBRARY + 0x1000),)))
    queue = target.build.alloc(144)
    # one thread waits: ``__wseq`` and ``__wrefs``
    target.ram.u64(queue, 2)
    target.ram.u32(queue + 36, 8)
    target.ram.u32(queue + 88, state)
    thread = target.waits(target.thread(), queue + 40, 0)
    (pc, sp), *rest = thread.frames
    thread.frames = [(pc, sp), (LIBRARY + 0x10, sp + 0x40), *rest]
    (lock,) = take_snapshot(target).report(lambda thread: False).locks
    return lock.kind, lock.why


@pytest.mark.parametrize(("state", "code"), [
    (0, "numba-worker-idle"), (1, "numba-waits-for-loop"), (3, "numba-worker-idle")])
def test_state_of_the_queue_shows_what_a_thread_waits_for(state: int, code: ReasonCode) -> None:
    assert waits(state) == ("condvar", because("several", reasons=(because(code), because("condvar-has-no-owner"))))


def test_part_that_a_worker_runs_is_a_job() -> None:
    assert waits(2) == ("pool-job", because("numba-waits-for-loop"))


def test_other_state_or_library() -> None:
    plain = "condvar", because("condvar-has-no-owner")
    assert waits(4) == waits(0, "workqueue.so") == waits(0, "libqueue.so") == plain
