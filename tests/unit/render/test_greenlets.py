from __future__ import annotations

from dataclasses import replace

from gdbext.model import Greenlet, Report
from gdbext.render.greenlets import greenlet_list
from gdbext.render.style import Style
from gdbext.render.text import TextRenderer
from tests.support.fake_report import asyncio, gil_deadlock


def text(given: Report, stacks: str = "full") -> str:
    return greenlet_list(given, TextRenderer(given, Style(), lambda file, line: f"    line {line}"), stacks)


def test_greenlets_with_the_same_stack_are_shown_once() -> None:
    assert text(asyncio()) == """\
Greenlets of thread 1 "MainThread": 3 greenlets
  Greenlet 0x30 (greenlet.greenlet) runs; its frames are those of its thread
  2 greenlets 0x31, 0x32 (Worker): each is suspended
    #0   work [coroutine] at /app/job.py:5
             line 5

Greenlets of thread 2 "loader": 3 greenlets
  Greenlet 0x36 (greenlet.greenlet) runs; its frames are those of its thread
  Greenlet 0x37 (Worker) waits for gevent.lock.RLock 0xa0 lock, held by greenlet 0x31 (work job.py:5), taken at \
job.py:5, with a timeout
  Greenlet 0x38 (Worker) waits for the end of greenlet 0x37

Greenlets of threads that have ended, or are not known: 1 greenlet
  Greenlet 0x33 (Worker) is suspended

1 greenlet not started, 1 greenlet finished
"""


def test_stacks_can_be_left_out() -> None:
    assert "Job.work" not in text(asyncio(), "none")


def test_current_greenlet_without_a_thread_does_not_run() -> None:
    left = Greenlet(0x30, "Worker", None, "current")
    assert text(replace(gil_deadlock(), greenlets=(left,))).splitlines()[1] == (
        "  Greenlet 0x30 (Worker) was the last one that its thread ran")


def test_thread_that_only_has_its_own_greenlet_is_not_shown() -> None:
    alone = Greenlet(0x30, "greenlet.greenlet", 1, "current", is_main=True)
    assert text(replace(gil_deadlock(), greenlets=(alone,))) == ""
