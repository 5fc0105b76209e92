from __future__ import annotations

from gdbext.model import (
    EXCLUSIVE,
    Wait,
)
from tests.support.fake_target import (
    ERESTART_RESTARTBLOCK,
    RESTART_SYSCALL,
    WAIT_BITSET_REALTIME,
    FakeTarget,
)
from tests.support.snapshots import abba, report_of, thread_of


def test_timed_wait_that_a_stop_has_restarted() -> None:
    target = FakeTarget()
    one, _, _, b = abba(target)
    target.blocked(one, RESTART_SYSCALL, b, WAIT_BITSET_REALTIME, 2, one.stack + 0x400, rax=ERESTART_RESTARTBLOCK)
    report = report_of(target)
    assert report.deadlocks == ()
    first = thread_of(report, one)
    assert first.waits == Wait(f"mutex:{b:#x}", EXCLUSIVE, True)
    assert first.syscall == "futex"
