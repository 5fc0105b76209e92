from __future__ import annotations

from tests.support.fake_elf import fake_elf
from tests.support.fake_python_target import PythonTarget
from tests.support.fake_target import (
    FakeTarget,
)
from tests.support.reasons import said
from tests.support.snapshots import report_of


def test_no_verdict_of_no_deadlock_in_a_truncated_core() -> None:
    target = FakeTarget()
    target.thread()
    assert report_of(target).no_verdict is None
    target.kept = (1_000, 124_456)
    assert said(report_of(target).no_verdict) == "the core is truncated: 1,000 of 124,456 bytes are there"


def test_no_verdict_of_no_deadlock_while_a_thread_cannot_be_read() -> None:
    target = FakeTarget()
    target.thread()
    assert report_of(target).problems == ()
    target.thread().available = False
    assert len(report_of(target).problems) == 1


def test_no_verdict_of_no_deadlock_in_a_python_that_is_not_decoded() -> None:
    target = FakeTarget()
    target.thread()
    assert report_of(target).no_verdict is None
    _, library = fake_elf(0x7F88_0000_0000, {"pypy_main_startup": (0x1000, 8)}, "/lib/libpypy3.9-c.so",
                          memory=target.ram)
    target.loaded.append(library)
    assert said(report_of(target).no_verdict) == "PyPy in libpypy3.9-c.so is not decoded"


def test_no_verdict_of_no_deadlock_while_thread_states_cannot_be_read() -> None:
    target = PythonTarget("3.11.7")
    _, first = target.python_thread()
    _, second = target.python_thread()
    assert report_of(target).no_verdict is None
    target.python.build.put("PyThreadState", second, next=second)
    target.python.build.put("PyThreadState", first, next=second)
    assert said(report_of(target).no_verdict) == "interpreter 0: the list of thread states has a loop"
