"""Processes read without GDB and without a pause: the report is that of GDB, except for what only GDB knows."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gdbext.direct import symbols
from gdbext.direct.one_snapshot import Request, answer_request
from gdbext.direct.tasks import read_tasks
from gdbext.launcher.snapshots import snapshot
from gdbext.launcher.snapshots.snapshot import Options, Target, take_snapshot
from tests.support import gdb_session, interpreters, locks, openmp, samples
from tests.support.documents import comparable, differences
from tests.support.samples import SOURCES, Sample

Json = Any
Start = Callable[[Path], AbstractContextManager[Sample]]

def python(name: str) -> Path:
    return interpreters.use(name)[0]


def of_locks(name: str) -> Start:
    process = locks.PROCESSES[name]
    return lambda folder: samples.locks(process.program, process.scenes, folder, stripped=True)


CASES: dict[str, Start] = {
    "abba-stripped": lambda folder: samples.abba("rwlock", folder, stripped=True),
    **{f"locks-{name}": of_locks(name) for name in locks.PROCESSES},
    "openmp": lambda folder: openmp.start(openmp.SCENES, folder, stripped=True),
    **{f"rapids-{name}": lambda folder, name=name: samples.rapids(python(name), "rwlock", folder)  # type: ignore[misc]
       for name in ("3.9-stripped", "3.13", "debian")},
    "pylocks": lambda folder: samples.running([python("3.13"), SOURCES / "pylocks.py", "deadlocks"], folder),
    "tasks": lambda folder: samples.running([python("3.13"), SOURCES / "tasks.py", "gather"], folder),
    "free-threaded": lambda folder: samples.free_threaded(python("3.13t"), "section-mutex", folder, stripped=True),
}


@dataclass(frozen=True)
class Both:
    """Two documents of one process, what the one without GDB left out, and how often the threads ran meanwhile."""

    by_gdb: Json
    direct: Json
    left_out: list[str]
    runs: dict[int, int]


@pytest.fixture(scope="module", autouse=True)
def _without_debug_files() -> Iterator[None]:
    """Without separate debug files, in which GDB finds other names of the same functions."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(snapshot, "SETTINGS", (*snapshot.SETTINGS, "set debug-file-directory /nonexistent"))
        patch.setattr(symbols, "DEBUG_FOLDER", "/nonexistent")
        yield


@pytest.fixture(scope="module", params=CASES)
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Both:
    with CASES[request.param](tmp_path_factory.mktemp("process")) as sample:
        sample.wait_until_final()
        before = read_tasks(sample.pid)
        answer = read_directly(sample.pid)
        after = read_tasks(sample.pid)
        sample.wait_until_final()
        seen = take_snapshot(Target(pid=sample.pid), Options(gdb=gdb_session.executable(), timeout=gdb_session.TIMEOUT))
        assert seen.document is not None, seen.problem
    runs = {tid: (after[tid].runs or 0) - (before[tid].runs or 0) for tid in before}
    return Both(seen.document, json.loads(json.dumps(answer["document"])), answer["left_out"], runs)


def read_directly(pid: int, may_stop: bool = True) -> Json:
    return answer_request(Request(None, {}, False, False, "full", False, None, True, pid, may_stop), "")


def test_document_is_that_of_gdb(both: Both) -> None:
    assert gdb_session.violations(both.direct) == []
    assert len(both.direct["threads"]) == len(both.by_gdb["threads"])
    # a stack that cannot be unwound without GDB is a problem in one document only
    if {"instructions", "frames"}.isdisjoint(both.left_out):
        assert [line for line in differences(comparable(both.by_gdb), comparable(both.direct))
                if not line.startswith((".target.paused", ".target.time"))] == []


def test_what_is_left_out_adds_no_holder_and_no_deadlock(both: Both) -> None:
    """Without machine code some holders cannot be proven; no other thread takes their place."""
    def holders(document: Json) -> dict[str, set[int]]:
        return {lock["address"]: {holder["thread"] for holder in lock["holders"]} for lock in document["locks"]}

    by_gdb = holders(both.by_gdb)
    assert {address: found for address, found in holders(both.direct).items() if not found <= by_gdb[address]} == {}
    deadlocks = [{*deadlock["threads"]} for deadlock in both.by_gdb["deadlocks"]]
    assert [deadlock for deadlock in both.direct["deadlocks"] if {*deadlock["threads"]} not in deadlocks] == []


def test_stacks_are_those_of_gdb(both: Both) -> None:
    """Program counters, and Python frames with their lines, are the same even where instructions are left out."""
    def stacks(document: Json) -> list[list[tuple[object, ...]]]:
        return [[(frame.get("pc"), frame.get("qualified_name"), frame["line"] if "pc" not in frame else None)
                 for frame in thread["stack"]] for thread in document["threads"] if thread["status"] != "running"]

    assert stacks(both.direct) == stacks(both.by_gdb)
    assert [thread["python_state"] for thread in both.direct["threads"]] == [
        thread["python_state"] for thread in both.by_gdb["threads"]]


def test_process_that_sleeps_does_not_run(both: Both) -> None:
    """Only those that wait for the GIL run, which they do by themselves."""
    waits = {thread["lwp"] for thread in both.direct["threads"]
             if (thread["waits"] or {}).get("lock", "").startswith("gil:")}
    if both.direct["target"]["paused"] == 0:
        assert {tid: runs for tid, runs in both.runs.items() if runs and tid not in waits} == {}
