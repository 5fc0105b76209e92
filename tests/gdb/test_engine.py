"""`gdbext ranks` and `report` on engines: processes that wait for messages of each other, without collectives."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.engines import Engine, running
from tests.support.launcher import Ran
from tests.support.launcher import launch as launch_any


def launch(*arguments: str | Path) -> Ran:
    return launch_any(*arguments, gdb=None)


def processes(engine: Engine) -> tuple[int, dict[str, Any]]:
    """The exit status and the processes of `gdbext ranks`."""
    ran = launch("ranks", str(engine.pid), "--json")
    return ran.status, json.loads(ran.stdout)["processes"]


def test_a_lost_message(tmp_path: Path) -> None:
    """The worker has taken the request, and waits for the next one; the scheduler waits for its answer."""
    with running("lost", tmp_path) as engine:
        status, found = processes(engine)
        pair = sorted([engine.processes["scheduler"], engine.processes["worker-1"]])
        assert status == 1
        assert found["ends"] == [pair]
        deadlock, = found["deadlocks"]
        assert deadlock["processes"] == pair
        assert deadlock["lost_message"] is True
        assert engine.processes["front"] in deadlock["stuck_behind"]

        text = launch("ranks", str(engine.pid), "--color", "never").stdout
        assert "wait for a message of each other, and none is on the way; 3 processes wait for them" in text
        assert "\nLost message: " in text


def test_a_deadlock_at_the_end_of_all_chains(tmp_path: Path) -> None:
    with running("lock", tmp_path) as engine:
        worker = engine.processes["worker-1"]
        status, found = processes(engine)
        assert status == 1
        assert found["ends"] == [[worker]]
        # from each process whose chain leads there
        for target in (engine.pid, engine.processes["front"]):
            ran = launch("report", str(target), "--color", "never")
            assert ran.status == 1
            lines = ran.stdout.splitlines()
            assert f" wait for process {worker} " in lines[1]
            assert lines[2].startswith(f"  process {worker} ")
            assert "DEADLOCK: 2 threads wait for each other" in lines[2]


def test_a_worker_that_sleeps(tmp_path: Path) -> None:
    with running("asleep", tmp_path) as engine:
        time.sleep(1)  # what has run a moment ago may go on
        status, found = processes(engine)
        assert status == 5
        assert found["ends"] == [[engine.processes["worker-1"]]]
        assert found["deadlocks"] == []
        lines = launch("ranks", str(engine.pid), "--color", "never").stdout.splitlines()
        assert lines[2].startswith(f"  process {engine.processes['worker-1']} ")
        assert " sleeps for " in lines[2]


@pytest.mark.parametrize("scene", ["idle", "at_work", "in_step"])
def test_healthy_engines(scene: str, tmp_path: Path) -> None:
    """One that waits for requests from outside, one whose worker computes, and one with many short requests."""
    with running(scene, tmp_path) as engine:
        time.sleep(1)
        status, found = processes(engine)
        assert status == 0
        assert found["ends"] == []
        assert found["deadlocks"] == []
        for name in ("front", "scheduler"):
            assert launch("report", str(engine.processes[name]), "--color", "never").status == 0
