from __future__ import annotations

from dataclasses import replace

import pytest

from gdbext.commands.report_options import DEFAULTS
from gdbext.direct import forked
from gdbext.errors import GdbextError
from gdbext.inferior.address_space import Region
from gdbext.model import (
    DERIVED,
    EXCLUSIVE,
    INFERRED,
    Deadlock,
    Edge,
    Holder,
    Lock,
    PyFrame,
    Report,
    TargetInfo,
    Thread,
    Waiter,
)
from gdbext.model.reasons import because, find_reasons, parts

LOCK = "py-lock:0x7f00"
OWNERLESS = because("records-no-owner", what="python-lock")
COPY = Lock(LOCK, "py-lock", 0x7F00, None, "locked", (), (Waiter(1, EXCLUSIVE),), why=OWNERLESS)
CHILD = Report(
    TargetInfo("live", 12, None, "x86_64", None), threads=(Thread(1, 12, 12, "python"),), locks=(COPY,),
    deadlocks=(Deadlock((1,), INFERRED, (Edge(1, LOCK, None),), because("no-other-thread", owner_unknown=1),
                        standstill=True),))
TAKEN = Holder(2, EXCLUSIVE, DERIVED, taken_at=PyFrame("collect", "collect", "/app/m.py", 9))
PARENT = Report(TargetInfo("live", 11, None, "x86_64", None),
                threads=(Thread(1, 11, 11, "python"), Thread(2, 13, 13, "python", "collector")),
                locks=(replace(COPY, holders=(TAKEN,), waiters=()),))
HERE = (Region(0x400000, 0x401000, "r", "/usr/bin/python3"),)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, tuple[int, ...]]]:
    """Processes 12, forked from 11, forked from 1, which has started another program; what is read of whom."""
    read: list[tuple[int, tuple[int, ...]]] = []

    def read_unmoved(pid: int, options: object, seconds: float, wanted: tuple[int, ...]) -> tuple[None, Report, None]:
        read.append((pid, wanted))
        return None, PARENT, None

    monkeypatch.setattr(forked, "read_unmoved", read_unmoved)
    monkeypatch.setattr(forked, "ancestors", lambda pid: iter((11, 1)))
    monkeypatch.setattr(forked, "is_forked", lambda pid: True)
    monkeypatch.setattr(forked, "read_maps", lambda pid: HERE if pid != 1 else (replace(HERE[0], start=0x500000),))
    return read


def test_thread_of_the_parent_is_named(asked: list[tuple[int, tuple[int, ...]]]) -> None:
    made = forked.with_holders_in_parents(CHILD, DEFAULTS)
    why = because("held-in-parent", pid=11, number=2, name="collector", function="collect", file="/app/m.py", line=9)
    assert asked == [(11, (0x7F00,))]
    assert made.locks == (replace(COPY, why=why),)
    assert parts(made.deadlocks[0].why) == (because("no-other-thread", owner_unknown=1), why)


def test_lock_that_is_free_in_the_parent(asked: list[tuple[int, tuple[int, ...]]],
                                         monkeypatch: pytest.MonkeyPatch) -> None:
    """Its thread has released it since, or the child has locked it: nothing is known."""
    free = replace(PARENT, locks=(replace(COPY, state="free", waiters=()),))
    monkeypatch.setattr(forked, "read_unmoved", lambda *_: (None, free, None))
    assert forked.with_holders_in_parents(CHILD, DEFAULTS) == CHILD


def test_parent_of_another_program(asked: list[tuple[int, tuple[int, ...]]], monkeypatch: pytest.MonkeyPatch) -> None:
    """What has the same address there is another lock."""
    monkeypatch.setattr(forked, "ancestors", lambda pid: iter((1,)))
    assert forked.with_holders_in_parents(CHILD, DEFAULTS) == CHILD
    monkeypatch.setattr(forked, "ancestors", lambda pid: iter((11,)))
    monkeypatch.setattr(forked, "is_forked", lambda pid: False)
    assert forked.with_holders_in_parents(CHILD, DEFAULTS) == CHILD
    assert asked == []


def test_parent_that_cannot_be_read(asked: list[tuple[int, tuple[int, ...]]],
                                    monkeypatch: pytest.MonkeyPatch) -> None:
    def read_unmoved(*_: object) -> None:
        raise GdbextError("it has ended")

    monkeypatch.setattr(forked, "read_unmoved", read_unmoved)
    assert forked.with_holders_in_parents(CHILD, DEFAULTS) == CHILD


def test_report_without_such_a_lock(asked: list[tuple[int, tuple[int, ...]]]) -> None:
    others = (replace(CHILD, deadlocks=()), replace(CHILD, locks=(replace(COPY, shared=True),)))
    for report in others:
        made = forked.with_holders_in_parents(report, DEFAULTS)
        assert not any(True for lock in made.locks for _ in find_reasons(lock.why, "held-in-parent"))
    assert asked == []
