from __future__ import annotations

import pytest

from gdbext.launcher.snapshots import limit
from gdbext.launcher.snapshots.limit import Limit, TooSlow


class Clock:
    now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(limit, "time", made)
    return made


def test_limit_that_has_passed_is_an_error(clock: Clock) -> None:
    tested = Limit(30.0)
    clock.now += 29
    tested.check("it was not read")
    assert tested.left == 1
    clock.now += 2
    assert tested.left == 0
    with pytest.raises(TooSlow, match=r"^it was not read within 30 s$"):
        tested.check("it was not read")
