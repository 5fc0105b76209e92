"""`gdbext ranks` on jobs of real processes, whose flight recorder is that of a stand-in for PyTorch's library."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from gdbext.inferior.proc.status import state_of
from gdbext.jobs.job import PATIENCE
from tests.support.launcher import Ran
from tests.support.launcher import launch as launch_any
from tests.support.ranks import Job, running


def launch(*arguments: str | Path) -> Ran:
    return launch_any(*arguments, gdb=None)


def document(job: Job, *options: str) -> tuple[int, dict[str, Any]]:
    ran = launch("ranks", str(job.pid), "--json", *options)
    return ran.status, json.loads(ran.stdout)


def test_a_deadlock_in_one_rank(tmp_path: Path) -> None:
    with running("lock", tmp_path) as job:
        status, found = document(job)
        assert status == 1
        assert found["verdict"]["title"] == "HUNG JOB"
        assert found["verdict"]["causes"] == [2]
        operation, = found["operations"]
        assert (operation["operation"]["name"], operation["operation"]["number"]) == ("all_reduce", 13)
        assert (operation["group"], operation["waiting"]) == ("default_pg", [0, 1])
        assert [(each["rank"], each["debt"], each["last"]["number"]) for each in operation["owing"]] == [
            (2, "not-called", 12)]
        assert found["reports"]["2"]["verdict"]["kind"] == "deadlock"
        assert [each["pid"] for each in found["ranks"]] == job.ranks
        assert all(state_of(pid) == "S" for pid in job.ranks)

        ran = launch("ranks", str(job.pid), "--color", "never")
        head, _, cause, others, known = ran.stdout.splitlines()[:5]
        assert head.startswith("HUNG JOB: 2 of 3 ranks wait in all_reduce #13 of default_pg")
        assert head.endswith("; rank 2 has not called it.")
        assert f"PID {job.ranks[2]}  last finished: all_reduce #12  DEADLOCK: 2 threads wait for each other" in cause
        assert others.split() [:2] == ["ranks", "0,"]
        assert "flight recorder" in known

        page = tmp_path / "page.html"
        assert launch("ranks", str(job.pid), "--html", page, "--stacks", "none").status == 1
        made = page.read_text(encoding="ascii")
        columns = made.partition('aria-label="Ranks"')[2].partition('<p class="why">')[0].split("<section ")[1:]
        assert [each.startswith('class="card cause bad"') for each in columns] == [True, False]
        for words in (">rank 2</a>", f"PID {job.ranks[2]}", "last finished: all_reduce #12",
                      "has not called all_reduce #13 of default_pg", "DEADLOCK: 2 threads wait for each other",
                      "ranks.py:62 in deadlock"):
            assert words in columns[0]
        assert "all_reduce #13 of default_pg, float32 (1000)" in columns[1]
        assert f"PIDs {job.ranks[0]}" in columns[1]
        assert "last finished: all_reduce #12" in columns[1]

        for target in (job.pid, job.ranks[0]):
            report = launch("report", str(target), "--color", "never")
            assert report.status == 1
            assert report.stdout.startswith("HUNG JOB: ")
        brief = launch("report", str(job.pid), "--brief", "--color", "never")
        assert brief.status == 1
        assert brief.stdout.startswith("HUNG JOB: ")
        assert len(brief.stdout.splitlines()) <= 15
        family = launch("report", str(job.pid), "--children", "--color", "never")
        assert family.status == 1
        assert family.stdout.startswith("HUNG JOB: ")
        assert "4 processes: " in family.stdout
        # its own report is the answer
        assert launch("report", str(job.ranks[2]), "--color", "never").stdout.splitlines()[2].startswith("DEADLOCK: ")


def test_triage_of_ranks(tmp_path: Path) -> None:
    with running("lock", tmp_path) as job:
        ran = launch("triage", *map(str, job.ranks), "--color", "never")
        assert ran.status == 1
        assert ran.stdout.startswith("HUNG JOB: 2 of 3 ranks wait in all_reduce #13 of default_pg")
        assert "rank 2 has not called it" in ran.stdout.splitlines()[0]
        # one that was not named may have called it
        some = launch("ranks", *map(str, job.ranks[:2]), "--json")
        assert json.loads(some.stdout)["operations"][0]["owing"][0]["debt"] == "elsewhere"


def test_joined_documents(tmp_path: Path) -> None:
    """Reports on each rank, as from several machines, give the same answer as the ranks at one moment."""
    with running("lock", tmp_path) as job:
        names = []
        for pid in job.ranks:
            path = tmp_path / f"{pid}.json"
            path.write_text(launch("report", str(pid), "--alone", "--json").stdout, encoding="utf-8")
            names.append(str(path))
        whole = tmp_path / "whole.json"
        whole.write_text(launch("ranks", str(job.pid), "--json").stdout, encoding="utf-8")
    for targets in (names, [str(whole)]):
        ran = launch("ranks", *targets, "--json")
        found = json.loads(ran.stdout)
        assert ran.status == 1
        assert found["verdict"]["causes"] == [2]
        assert found["operations"][0]["waiting"] == [0, 1]
        assert found["reports"]["2"]["verdict"]["kind"] == "deadlock"
    # the file of rank 2 is not there: nothing is said of it
    lacking = launch("ranks", *names[:2], "--json")
    assert json.loads(lacking.stdout)["operations"][0]["owing"][0]["debt"] == "elsewhere"


@pytest.mark.parametrize(("scene", "debt"), [
    ("other_operation", "other-operation"), ("other_size", "other-size"), ("ended", "missing"), ("killed", "ended")])
def test_an_operation_that_can_never_end(scene: str, debt: str, tmp_path: Path) -> None:
    with running(scene, tmp_path) as job:
        status, found = document(job)
        assert status == 1
        assert [(each["rank"], each["debt"]) for each in found["operations"][0]["owing"]] == [(1, debt)]
        assert found["operations"][0]["waiting"] == [0, 2]


def test_groups_in_opposite_order(tmp_path: Path) -> None:
    with running("circle", tmp_path) as job:
        time.sleep(1.5)  # an operation of a healthy job may take a moment
        status, found = document(job)
        assert status == 1
        assert found["verdict"]["circle"] == [0, 1]


def test_a_rank_that_sleeps(tmp_path: Path) -> None:
    with running("asleep", tmp_path) as job:
        time.sleep(PATIENCE + 1)
        status, found = document(job)
        assert status == 5
        assert found["verdict"]["causes"] == [1]
        assert launch("report", str(job.pid), "--color", "never").stdout.startswith("WAITING JOB: ")


@pytest.mark.parametrize("scene", ["at_work", "in_step"])
def test_healthy_jobs(scene: str, tmp_path: Path) -> None:
    """A rank that computes, and ranks that go from one operation to the next."""
    with running(scene, tmp_path) as job:
        status, found = document(job)
        assert status == 0
        assert found["verdict"]["kind"] == "working"
        # after a while the others are said to wait for the rank that computes
        assert "HUNG" not in launch("report", str(job.pid), "--color", "never").stdout


def test_half_of_a_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other ranks are on another machine: nobody says that they have ended."""
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    with running("lock", tmp_path) as job:
        os.kill(job.ranks[2], signal.SIGKILL)
        while state_of(job.ranks[2]) not in ("Z", None):
            time.sleep(0.01)
        status, found = document(job)
        assert [(each["rank"], each["debt"]) for each in found["operations"][0]["owing"]] == [(2, "elsewhere")]
        assert status in (0, 5)


def test_a_stopped_rank(tmp_path: Path) -> None:
    with running("other_size", tmp_path) as job:
        os.kill(job.ranks[0], signal.SIGSTOP)
        status, found = document(job)
        assert found["ranks"][0]["state"] == "stopped"
        assert found["ranks"][0]["signal"] == "SIGSTOP"
        assert status == 1
        assert state_of(job.ranks[0]) == "T"


def test_the_cores_of_all_ranks(tmp_path: Path) -> None:
    with running("lock", tmp_path) as job:
        cores = []
        for pid in job.ranks:
            cores.append(tmp_path / f"core.{pid}")
            subprocess.run(["gcore", "-o", tmp_path / "core", str(pid)], check=True, capture_output=True)
    ran = launch("ranks", *map(str, cores), "--json")
    found = json.loads(ran.stdout)
    assert ran.status == 1
    assert found["verdict"]["causes"] == [2]
    assert found["operations"][0]["waiting"] == [0, 1]
    assert [each["identity"]["rank"] for each in found["ranks"]] == [0, 1, 2]
    triage = launch("triage", *map(str, cores), "--color", "never")
    assert triage.stdout.startswith("HUNG JOB: 2 of 3 ranks wait in all_reduce #13 of default_pg")


def test_bad_targets(tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.json"
    damaged.write_text("{", encoding="utf-8")
    for target, why in ((str(os.getpid()), "no rank of a job"), (str(damaged), "not one JSON document"),
                        ("/nonexistent.json", "cannot be read")):
        ran = launch("ranks", target)
        assert ran.status == 3
        assert why in ran.stderr
        assert ran.stdout == ""
