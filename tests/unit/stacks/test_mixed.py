from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from gdbext.model import Frame, NativeFrame, Part, PyFrame
from gdbext.snapshot import take_snapshot
from gdbext.stacks import mixed
from tests.support.fake_python import VERSIONS
from tests.support.fake_target import APP_TEXT, DRIVER_TEXT, LIBC_TEXT
from tests.support.snapshots import gil_and_rwlock, report_of, thread_of


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_stacks_of_both_languages_are_one(version: str) -> None:
    target, main, _, _ = gil_and_rwlock(version)
    target.name(LIBC_TEXT + 0x100, "__GI___pthread_rwlock_wrlock")
    target.name(DRIVER_TEXT + 0x40, "update_table")
    first = thread_of(report_of(target), main)
    python = (PyFrame("update", "update", "/app/job.py", 41), PyFrame("main", "main", "/app/job.py", 90))
    libc = NativeFrame("pthread_rwlock_wrlock", "libc.so.6", LIBC_TEXT + 0x100)
    driver = NativeFrame("update_table", "libdrv.so", DRIVER_TEXT + 0x40)
    program = NativeFrame(None, "server", APP_TEXT + 0x80)
    if target.python.version_tuple >= (3, 11):
        assert (first.stack, first.unmerged) == ((libc, driver, *python, program), None)
    else:  # the library exports no symbols, so nothing identifies the frames of the eval loop
        assert first.stack == (*python, libc, driver, program)
        assert first.unmerged is not None


def test_boundaries_are_looked_for_once_in_stacks_that_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    target, main, worker, _ = gil_and_rwlock("3.12.1")
    others = [target.thread() for _ in range(20)]
    looks: list[Sequence[Frame]] = []

    def present(frames: Sequence[Frame], facts: object) -> list[Part]:
        looks.append(frames)
        return [Part(tuple(frames), "folded")]

    monkeypatch.setattr(mixed, "present", present)
    report = take_snapshot(target).report(lambda thread: True)
    assert len(looks) == 3
    for thread in report.threads:
        assert thread.parts == (Part(thread.stack, "folded"),)
    assert len({id(thread_of(report, fake).parts) for fake in others}) == 1
    assert thread_of(report, main).stack != thread_of(report, worker).stack
    # threads whose stacks are not shown have none
    looks.clear()
    report = take_snapshot(target).report(lambda thread: False)
    assert len(looks) == 2
    assert not any(thread_of(report, fake).parts for fake in others)


def test_parts_follow_names_that_are_found_later() -> None:
    """The source lines of a running process come with other names, when it is no longer read."""
    target, main, worker, _ = gil_and_rwlock("3.12.1")
    snapshot = take_snapshot(target)
    before = snapshot.report(lambda thread: True)

    def renamed(frame: Frame) -> Frame:
        return replace(frame, function="bank::pay(int)") if isinstance(frame, NativeFrame) else frame

    one, *others = before.threads
    stack = tuple(map(renamed, one.stack))
    after = snapshot.with_lines(before, lambda report: replace(report, threads=(replace(one, stack=stack), *others)))
    assert [frame for part in after.threads[0].parts for frame in part.frames] == list(stack)
    assert {part.name for part in after.threads[0].parts} == {"bank::pay", None}
    assert after.threads[1:] == before.threads[1:]


def test_each_frame_is_in_one_part(version: str) -> None:
    target, _, _, _ = gil_and_rwlock(version)
    for thread in take_snapshot(target).report(lambda thread: True).threads:
        assert tuple(frame for part in thread.parts for frame in part.frames) == thread.stack
        assert thread.stack
