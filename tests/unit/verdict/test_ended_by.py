from __future__ import annotations

from dataclasses import replace

import pytest

from gdbext.model import DERIVED, EXCLUSIVE, RECORDED, Ender, Holder, Lock, Wait
from gdbext.model.kinds import LockKind
from gdbext.model.reasons import Reason, because
from gdbext.verdict.ended_by import find_enders, only_this_process_ends
from tests.support.reasons import text

WAIT = Wait("x", EXCLUSIVE, False)
TIMED = replace(WAIT, timed=True)
HERE = because("other-end-here", fds=(3,))
CHILD = because("process", pid=7, name="sh", generation=1)
THERE = because("other-end", ends=(because("descriptor-of", fd=4, process=CHILD),))


def lock(kind: LockKind = "mutex", *holders: int, why: Reason | None = None, **more: object) -> Lock:
    made = Lock("x", kind, 0x10, None, "locked", tuple(Holder(each, EXCLUSIVE, DERIVED) for each in holders), why=why)
    return replace(made, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(("waits", "waited", "enders"), [
    (WAIT, lock("mutex", 2), (Ender("thread", thread=2, evidence=DERIVED),)),
    (TIMED, lock("mutex", 2), (Ender("time", 600.0), Ender("thread", thread=2, evidence=DERIVED))),
    (WAIT, lock("mutex", orphan=text("gone")), (Ender("nobody", evidence=RECORDED, why=text("gone")),)),
    # any thread may set it, and no process
    (WAIT, lock("py-event"), (Ender("this-process", evidence=DERIVED),)),
    (WAIT, lock("py-event", shared=True), (
        Ender("this-process", evidence=DERIVED), Ender("outside", evidence=DERIVED))),
    # a futex word may be anybody's
    (WAIT, lock("futex"), ()),
    (WAIT, lock("descriptor", why=HERE), (Ender("this-process", evidence=DERIVED, why=HERE),)),
    (WAIT, lock("descriptor", why=THERE), (Ender("process", process=7, why=THERE),)),
    (WAIT, lock("descriptor"), (Ender("outside"),)),
    (None, None, ()),
])
def test_enders_of_a_lock(waits: Wait | None, waited: Lock | None, enders: tuple[Ender, ...]) -> None:
    assert find_enders(waits, waited, None, 600.0) == enders


@pytest.mark.parametrize(("reason", "enders"), [
    (because("sleeps-for", seconds="9"), (Ender("time", 600.0),)),
    (because("waits-for-signal"), (Ender("outside", why=because("waits-for-signal")),)),
    (because("waits-for-child", process=CHILD), (
        Ender("process", process=7, why=because("waits-for-child", process=CHILD)),)),
])
def test_enders_of_other_waits(reason: Reason, enders: tuple[Ender, ...]) -> None:
    assert find_enders(None, None, reason, 600.0) == enders


@pytest.mark.parametrize(("why", "expected"), [
    (HERE, True),
    (THERE, False),
    (None, False),
    (because("several", reasons=(because("of-descriptor", fd=3, end=HERE), because("of-descriptor", fd=4, end=HERE))),
     True),
    (because("several", reasons=(because("of-descriptor", fd=3, end=HERE), because("of-descriptor", fd=4, end=THERE))),
     False),
    (because("several", reasons=(because("of-descriptor", fd=3, end=HERE), because("of-other-descriptors", count=1))),
     False),
    (because("in-accept-queue", listeners=(), only_here=1), True), (because("in-accept-queue", listeners=()), False),
    (because("watches", watched=(), count=1, only_here=1), True),
    (because("watches", watched=(), count=1, only_here=0), False),
    (because("watches", watched=(), count=1), False),
])
def test_other_ends_in_this_process_only(why: Reason | None, expected: bool) -> None:
    assert only_this_process_ends(lock("descriptor", why=why)) == expected
