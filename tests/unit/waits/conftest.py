"""A live process as the tests of waits have it: its /proc, and a target that reads from there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.fake_proc import FakeProc
from tests.support.fake_target import FakeTarget


@pytest.fixture
def fake(tmp_path: Path) -> FakeProc:
    """The files of /proc."""
    return FakeProc(tmp_path)


@pytest.fixture
def live(fake: FakeProc) -> FakeTarget:
    """A target without threads, whose files of /proc are those of `fake`."""
    target = FakeTarget()
    target.proc = fake.proc()
    return target
