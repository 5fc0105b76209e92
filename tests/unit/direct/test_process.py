"""A running process at one moment: of a child that runs, or sleeps for very short times."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator

import pytest

from gdbext.direct.process import ProcessTarget, Way
from gdbext.direct.tasks import read_tasks

BURNING = "print('ready', flush=True)\nwhile True: pass"
NAPPING = "import time\nprint('ready', flush=True)\nwhile True: time.sleep(0.001)"


@contextlib.contextmanager
def child(program: str) -> Iterator[int]:
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield process.pid
        finally:
            process.kill()


def pages_of(target: ProcessTarget) -> frozenset[int]:
    """Read some memory, and return the addresses of its pages."""
    stack = target.registers(target.threads()[0], ("rsp",))["rsp"]
    assert target.memory.read(stack, 8)
    return target.pages


@pytest.fixture
def burning() -> Iterator[int]:
    with child(BURNING) as pid:
        yield pid


@pytest.fixture
def napping() -> Iterator[int]:
    with child(NAPPING) as pid:
        yield pid


def test_thread_that_runs_has_moved(burning: int) -> None:
    with contextlib.closing(ProcessTarget(burning)) as target:
        assert pages_of(target)
        assert target.stopped.current == set()
        assert target.moved() == {burning}


def test_thread_that_was_stopped_for_the_image_may_run_on(burning: int) -> None:
    with contextlib.closing(ProcessTarget(burning)) as first:
        pages = pages_of(first)
    with contextlib.closing(ProcessTarget(burning, way=Way(frozenset({burning}), pages))) as target:
        assert pages_of(target)
        assert target.stopped.ever == {burning}
        assert target.stopped.current == set()
        assert target.moved() == set()
        # a page that was not part of the image shows another moment
        other = next(region.start for region in target.regions()
                     if region.allows("w") and region.start not in target.pages)
        assert target.memory.read(other, 1)
        assert target.moved() == {burning}


def test_thread_that_sleeps_during_the_image_is_not_stopped(napping: int) -> None:
    with contextlib.closing(ProcessTarget(napping)) as first:
        pages = pages_of(first)
    with contextlib.closing(ProcessTarget(napping, way=Way(frozenset({napping}), pages))) as target:
        assert pages_of(target)
        before = target.tasks[napping]
        assert before.call is not None
        while read_tasks(napping)[napping].has_slept_since(before):
            pass
        assert target.stopped.ever == set()
        assert target.moved() == set()


def test_thread_that_runs_is_left_out_if_it_must_not_be_stopped(burning: int) -> None:
    with contextlib.closing(ProcessTarget(burning, False, Way(frozenset({burning}), frozenset({0x1000})))) as target:
        assert target.tasks[burning].call is None
        assert target.stopped.ever == set()
        assert target.moved() == set()


def test_thread_is_held_until_the_end(burning: int) -> None:
    target = ProcessTarget(burning, way=Way(frozenset({burning}), hold=True))
    with contextlib.closing(target), target.stopped:
        assert set(target.stopped.current) == {burning}
        assert target.moved() == set()
