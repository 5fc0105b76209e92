from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from gdbext.launcher.snapshots import limit, snapshot
from gdbext.launcher.snapshots.limit import Limit, TooSlow
from gdbext.launcher.snapshots.preparation import Preparation


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


@pytest.mark.parametrize(("used", "left"), [(20.0, 10.0), (31.0, None)])
def test_reading_without_gdb_and_by_gdb_have_one_time_limit(used: float, left: float | None, clock: Clock,
                                                           monkeypatch: pytest.MonkeyPatch) -> None:
    def defer(*request: Any) -> Mapping[str, Any]:
        clock.now += used
        return {"left_out": ["variables"]}

    monkeypatch.setattr(snapshot, "read_without_gdb", defer)
    times: list[float] = []

    def wait(run: Any, process: Any) -> None:
        times.append(run.limit.left)
        clock.now += run.limit.left

    monkeypatch.setattr(snapshot._Run, "_wait", wait)
    with pytest.raises(TooSlow, match="^process 1073741824 was not read within 30 s$"):
        snapshot._answer(snapshot._Run(Limit(30.0)), "/bin/true", snapshot.Target(pid=1 << 30), snapshot.Options(),
                         Preparation())
    assert times == ([] if left is None else [left])
