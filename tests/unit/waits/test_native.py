from __future__ import annotations

import pytest

from gdbext.model import (
    EXCLUSIVE,
    RECORDED,
    Holder,
)
from tests.support.fake_target import (
    LOCK_PI,
    FakeTarget,
)
from tests.support.snapshots import abba, lock_of, report_of, thread_of


@pytest.mark.parametrize(("members", "op", "expected"), [
    ({"__lock": 0x80000064, "__owner": 100, "__nusers": 1, "__kind": 0x20}, LOCK_PI, 0),
    ({"__lock": 0x80000064, "__owner": 100, "__nusers": 1, "__kind": 0x90}, 0, 0x80000064),
])
def test_locks_that_the_kernel_checks(members: dict[str, int], op: int, expected: int) -> None:
    target = FakeTarget()
    target.thread()
    mutex = target.mutex(100, **members)
    target.waits(target.thread(), mutex, expected, op)
    assert lock_of(report_of(target), mutex).holders == (Holder(1, EXCLUSIVE, RECORDED),)


def test_wait_that_has_just_ended() -> None:
    target = FakeTarget()
    one, _, _, _ = abba(target)
    one.registers["rax"] = 0
    report = report_of(target)
    assert report.deadlocks == ()
    assert (thread_of(report, one).status, thread_of(report, one).waits) == ("running", None)
