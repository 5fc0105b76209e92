"""Free-threaded CPython: deadlocks without a GIL, threads that stop the world, and a thread that dies of a race."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gdbext.model import EVIDENCE
from tests.support import combinations, cores, differential, gdb_session, interpreters, samples
from tests.support.hang import Hang
from tests.support.report import Report, candidates

# a core contains least about these
STRIPPED_NAMES = tuple(name for name in interpreters.FREE_THREADED_NAMES if name.endswith("-stripped"))
TARGETS = ("live", "gcore", "kernel-core")
MAIN_SCENES = ("lock-abba", "section-mutex", "guard-world")
FURTHER_SCENES = ("mutex-abba", "mutexes-in-code", "import-lock", "section2", "guard-section", "suspended",
                  "world-busy")
# all threads except the main thread hang in functions of Python itself
PYTHON_SCENES = ("lock-abba", "import-lock", "suspended")
CASES = [
    *combinations.cases(interpreters.FREE_THREADED_NAMES, MAIN_SCENES, TARGETS),
    *itertools.product(interpreters.FREE_THREADED_NAMES if combinations.LONG else interpreters.FREE_THREADED_VERSIONS,
                       FURTHER_SCENES, ("live",)),
    *itertools.product(STRIPPED_NAMES, FURTHER_SCENES, ("kernel-core",)),
]
STATES = ("attached", "detached", "suspended")
WRITERS = ("alice", "bob", "carol", "dave")
EXTENSION = "_freethreaded.so"


@dataclass(frozen=True)
class FreeThreadedHang(Hang):
    """The sample's commands, and the facts that it printed in addition to its truth."""

    target: str
    more: dict[str, Any]

    @property
    def reports(self) -> tuple[Report, Report]:
        """`py-threads-locks --json` and `py-deadlocks --json`."""
        return self.everything, self.part(1)

    def state(self, role: str) -> str:
        """The state recorded in the thread state of a role."""
        return str(self.more["states"].get(role, "detached"))


@pytest.fixture(scope="module", params=CASES, ids=["-".join(case) for case in CASES])
def seen(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FreeThreadedHang]:
    """One session with every command; each test below checks a part of it."""
    name, scene, target = request.param
    python, symbols = interpreters.use(name)
    with samples.free_threaded(python, scene, tmp_path_factory.mktemp("scene"), stripped=not symbols) as sample:
        more = json.loads((sample.directory / "more.json").read_text())
        commands = ["py-threads-locks --json", "py-deadlocks --json", "gil-holder --json", "gil-holder"]
        with cores.place(sample, python, target) as where:
            session = differential.batch(sample, where, commands, symbols=symbols)
        yield FreeThreadedHang(scene, sample.truth, session, target, more)


def test_report_is_complete(seen: FreeThreadedHang) -> None:
    assert seen.session.status == 0
    assert "Traceback" not in seen.session.stderr
    document = seen.everything.document
    assert document["target"]["kind"] == ("live" if seen.target == "live" else "core")
    assert document["problems"] == []
    assert set(seen.everything.roles.values()) == set(seen.truth.threads)
    (runtime,) = document["runtimes"]
    assert runtime["build"] == "free-threaded"
    known = {lock.id for lock in seen.truth.locks.values()}
    others = {lock["id"]: lock["state"] for lock in document["locks"]
              if lock["kind"] != "descriptor" and lock["id"] not in known}
    assert others == {"gil:0": "disabled"}


def test_threads(seen: FreeThreadedHang) -> None:
    report = seen.everything
    for role, expected in seen.truth.threads.items():
        row = report.thread(role)
        assert row["lwp"] == expected.tid
        assert row["python_name"] == expected.python_name
        assert row["python_state"] == seen.state(role), role
        assert report.python_stack(role) == expected.stack, role
        if role == "collector":
            # it waits for a millisecond at a time, and GDB may stop it between two waits
            assert row["syscall"] in ("futex", None)
            assert report.lock_name(row["waits"]["lock"]) == "stop"
            assert row["waits"]["timed"] is False
            assert report.holds(role) == {("world", "exclusive", "recorded")}
        else:
            report.check_thread(role)
        if role == "reader":
            assert row["waits"]["lock"].startswith("descriptor:")


def test_extension_frames_are_in_the_stacks(seen: FreeThreadedHang) -> None:
    """If the extension called the blocking function, its frames are between Python's and that function's."""
    for role, expected in seen.truth.threads.items():
        stack = seen.everything.thread(role)["stack"]
        first = [frame["language"] for frame in stack].index("python")
        modules = [Path(frame["module"]).name for frame in stack[:first] if frame["module"]]
        called = expected.stack[0][0] != "join" if role == "main" else not (
            role == "collector" or seen.variant in PYTHON_SCENES)
        assert (EXTENSION in modules) == called, role
        assert modules[0] != EXTENSION, "every thread sleeps in another library"


def test_locks(seen: FreeThreadedHang) -> None:
    for name, expected in seen.truth.locks.items():
        if expected.kind == "py-mutex" and not expected.holders:
            check_mutex(seen.everything, name)
        else:
            seen.everything.check_lock(name)


def check_mutex(report: Report, name: str) -> None:
    """Check the holder of a `PyMutex`, which records none: the candidates must include the real holder."""
    expected = report.truth.locks[name]
    row = report.lock(name)
    assert (row["kind"], row["state"], row["holders"]) == ("py-mutex", expected.state, [])
    assert "records no owner" in row["why"]
    assert [report.role(waiter["thread"]) for waiter in row["waiters"]] == list(expected.waiters)
    roles = {report.role(number) for number in candidates(row)}
    assert not roles or roles >= set(expected.really)


def test_critical_sections(seen: FreeThreadedHang) -> None:
    for role in seen.truth.threads:
        assert seen.everything.thread(role)["critical_sections"] == seen.more["sections"].get(role, []), role


def test_deadlock(seen: FreeThreadedHang) -> None:
    truth = seen.truth
    for report in seen.reports:
        deadlocks = report.document["deadlocks"]
        if not truth.deadlock:
            assert deadlocks == []
            continue
        (deadlock,) = deadlocks
        assert report.edges() == set(truth.deadlock)
        assert {report.role(number) for number in deadlock["threads"]} == {edge[0] for edge in truth.deadlock}
        assert deadlock["stuck_behind"] == []
        if seen.variant == "mutex-abba":
            # the interpreter's table of handlers shows, in a core too, that no signal handler can wake a thread
            assert deadlock["evidence"] == "inferred"
            assert "every thread of the process waits" in deadlock["why"]
            continue
        known = [truth.locks[name].evidence or "recorded" for _, name, _ in truth.deadlock]
        assert deadlock["evidence"] == max(known, key=EVIDENCE.index)


def test_no_gil(seen: FreeThreadedHang) -> None:
    for report in (seen.everything, seen.part(2)):
        gil = report.gil()
        assert (gil["state"], gil["holder"], gil["waiters"]) == ("disabled", None, [])


def test_stop_the_world_requester_is_reported(seen: FreeThreadedHang) -> None:
    for report in (seen.everything, seen.part(2)):
        (runtime,) = report.document["runtimes"]
        (interpreter,) = runtime["interpreters"]
        stop = interpreter["stop_the_world"]
        lock = seen.truth.locks.get("stop")
        assert stop["requested"] == (lock is not None)
        assert report.role(stop["requester"]) == (lock.waiters[0] if lock else None)
        assert [report.role(number) for number in stop["waiting_for"]] == list(lock.holders if lock else ())


def test_text_of_gil_holder(seen: FreeThreadedHang) -> None:
    text = seen.session.outputs[3]
    assert "no GIL (free-threaded)" in text
    numbers = {role: number for number, role in seen.everything.roles.items()}
    for state in STATES:
        expected = {numbers[role] for role in seen.truth.threads if seen.state(role) == state}
        lines = re.findall(rf"^ *{state} [^:\n]*: threads? ([-\d, ]+)$", text, re.MULTILINE)
        # three or more consecutive numbers are shown as a range
        ranges = [[int(number) for number in part.split("-")] for line in lines for part in line.split(", ")]
        assert {number for each in ranges for number in range(each[0], each[-1] + 1)} == expected, state
    (asked,) = re.findall(r"stop-the-world requested by thread (\d+)", text) or [None]
    assert asked == (str(numbers["collector"]) if "collector" in numbers else None)


@pytest.mark.parametrize("name", interpreters.FREE_THREADED_NAMES)
def test_deadlock_with_the_gil_switched_on(name: str, tmp_path: Path) -> None:
    """With the GIL switched on, the deadlock of GIL and driver lock is reported as for other interpreters."""
    python, symbols = interpreters.use(name)
    with samples.rapids(python, "rwlock", tmp_path, variables={"PYTHON_GIL": "1"}) as sample:
        for target in TARGETS:
            where: list[str | Path] = ["-p", str(sample.pid)]
            if target != "live":
                core = cores.gdb_core(sample) if target == "gcore" else cores.kernel_core(sample)
                where = [python, core]
            session = gdb_session.batch(where, ["py-threads-locks --json", "gil-holder"], symbols=symbols)
            if target != "live":
                core.unlink()
            assert session.status == 0
            report = Report(session.document(0), sample.truth)
            assert report.edges() == set(sample.truth.deadlock), target
            (deadlock,) = report.document["deadlocks"]
            assert deadlock["evidence"] == "recorded", target
            report.check_lock("table")
            gil = report.gil()
            assert (gil["state"], report.role(gil["holder"])) == ("held", "main"), target
            assert [report.role(number) for number in gil["waiters"]] == ["worker"], target
            for role, thread in sample.truth.threads.items():
                assert report.python_stack(role) == thread.stack, (target, role)
            assert "GIL held by" in session.outputs[1]


@pytest.mark.parametrize("name", interpreters.FREE_THREADED_NAMES)
def test_race(name: str, tmp_path: Path) -> None:
    """The core of a program that died of a race shows what each thread was doing, including the one that died."""
    python, symbols = interpreters.use(name)
    with samples.free_threaded(python, "race", tmp_path, stripped=not symbols) as sample:
        sample.send("\n")
        core = cores.core_of_crash(sample)
        session = gdb_session.batch([python, core], ["py-threads-locks --json", "py-deadlocks --json"],
                                    symbols=symbols)
    core.unlink()
    assert session.status == 0
    report = Report(session.document(0), sample.truth)
    assert report.document["problems"] == []
    assert report.document["deadlocks"] == session.document(1)["deadlocks"] == []
    # the kernel writes the dying thread first
    assert report.role(1) in WRITERS
    for role, expected in sample.truth.threads.items():
        row = report.thread(role)
        assert report.python_stack(role) == expected.stack, role
        assert row["python_state"] == ("attached" if role in WRITERS else "detached"), role
        first = [frame["language"] for frame in row["stack"]].index("python")
        functions = [frame["function"] for frame in row["stack"][:first]
                     if frame["module"] and Path(frame["module"]).name == EXTENSION]
        assert functions, role
        if role in WRITERS:
            # debug information adds the types of the arguments
            assert functions[-1].partition("(")[0] == "write_journal", role
            assert (row["waits"], row["holds"]) == (None, []), role
