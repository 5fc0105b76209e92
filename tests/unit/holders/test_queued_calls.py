from __future__ import annotations

import pytest

from gdbext.holders.queued_calls import queued_behind
from gdbext.locks.seen import SeenLock, held_by
from gdbext.model import INFERRED
from gdbext.model.reasons import because

RESULT = SeenLock("py-condition", 0x10, "result is pending")
BUSY, IDLE = SeenLock("py-lock", 0x20, "locked"), SeenLock("py-condition", 0x30, "queue is empty")
WHY = because("call-is-queued", function="a", workers=2, queued=3, functions=("b", "a"))


def test_busy_workers_are_those_who_have_to_make_the_result() -> None:
    found = queued_behind(RESULT, [3, 2], "a", ["b", "a", "b"], True, {2: BUSY, 3: BUSY})
    assert (found.held, found.why) == (held_by([2, 3], INFERRED, WHY), WHY)


@pytest.mark.parametrize("waited", [{2: BUSY}, {2: BUSY, 3: IDLE}])
def test_worker_that_may_take_the_call_is_not_waited_for(waited: dict[int, SeenLock]) -> None:
    found = queued_behind(RESULT, [2, 3], "a", ["b", "a", "b"], True, waited)
    assert (found.holders, found.why) == ((), because("several", reasons=(WHY, because("condition-has-no-owner"))))


def test_pool_that_may_start_a_worker() -> None:
    assert queued_behind(RESULT, [2, 3], None, [None], False, {2: BUSY, 3: BUSY}).holders == ()
