"""Greenlets of the package `greenlet`: their states, threads and frames, and locks that suspended ones hold."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support import cores, gdb_session, interpreters, launcher, packages, samples
from tests.support.report import Json, Report
from tests.support.samples import SOURCES, Sample

# each shape of Python's frames with each shape of greenlet's objects; the last releases for 3.8 and 3.9
PAIRS = (("3.8", "3.1.1"), ("3.9-stripped", "2.0.2"), ("3.10", "3.2.5"), ("3.11", "2.0.2"), ("3.11-stripped", "3.5.6"),
         ("3.12", "3.0.3"), ("3.13", "3.5.6"))
#: The pairs with which the locks are tested.
LOCKING = (("3.9-stripped", "2.0.2"), ("3.13", "3.5.6"))


#: A thread waits for the lock of one that has ended, and the other one for a pipe that only this process has: neither
#: will run again. A core does not record the holders of a pipe.
HOPELESS = {("main", "descriptor:0x3", None), ("taker", "lock", None)}


@contextmanager
def running(name: str, release: str, variant: str, folder: Path) -> Iterator[tuple[Sample, bool]]:
    python, symbols = interpreters.use(name)
    path = packages.use_locks(f"greenlet-{release}", name.partition("-")[0])
    with samples.running([python, "-W", "ignore", SOURCES / "greenlets.py", variant], folder,
                         variables={"PYTHONPATH": str(path)}) as sample:
        yield sample, symbols


def snapshots(sample: Sample, symbols: bool) -> dict[str, Json]:
    """The documents of the process and of a core by GDB, and of the process without GDB."""
    made = {}
    for target in ("live", "gcore"):
        with cores.place(sample, sample.executable, target) as where:
            made[target] = gdb_session.batch(where, ["py-threads-locks --stacks=none --json"], symbols=symbols,
                                             directory=sample.directory).document()
    made["direct"] = launcher.launch_by(launcher.command(
        "report", str(sample.pid), "--no-gdb", "--json", gdb=None)).document()
    return made


def rows(document: Json, report: Report) -> dict[str, tuple[str, str, str | None, list[str]]]:
    """By address: the class, the state, the role of the thread, and the functions of the program in the stack."""
    own = str(SOURCES / "greenlets.py")
    return {row["id"]: (row["kind"].rpartition(".")[2], row["state"], report.role(row["thread"]),
                        [frame["function"] for frame in row["stack"] if frame["file"] == own])
            for row in document["greenlets"]}


@pytest.mark.parametrize(("name", "release"), PAIRS)
def test_states_threads_and_stacks(name: str, release: str, tmp_path: Path) -> None:
    with running(name, release, "states", tmp_path) as (sample, symbols):
        truth = {row["id"]: (row["kind"], row["state"], row["thread"], row["stack"])
                 for row in sample.truth.greenlets}
        documents = snapshots(sample, symbols)
    for where, document in documents.items():
        found = rows(document, Report(document, sample.truth))
        assert {each: found.get(each) for each in truth} == truth, where
        # besides these there is only the main greenlet of the thread that has ended
        assert [row[1:3] for each, row in found.items() if each not in truth] == [("dead", None)], where
        # up to 3.10 the native frames of the greenlets below the current one cannot be distinguished from its own
        expected = {"made-without-gdb", *(("not-interleaved",) if name.startswith(("3.8", "3.9", "3.10")) else ())}
        assert {row["why_code"]["code"] for row in document["problems"]} <= expected, where


@pytest.mark.parametrize("variant", ["deadlock", "main", "released", "idle", "ended"])
@pytest.mark.parametrize(("name", "release"), LOCKING)
def test_thread_that_alone_can_resume_the_greenlet_is_the_holder(
    name: str, release: str, variant: str, tmp_path: Path
) -> None:
    with running(name, release, variant, tmp_path) as (sample, symbols):
        documents = snapshots(sample, symbols)
    for where, document in documents.items():
        report = Report(document, sample.truth)
        lock = report.lock("lock")
        assert [report.role(holder["thread"]) for holder in lock["holders"]] == [
            *sample.truth.locks["lock"].holders], where
        hopeless = HOPELESS if variant == "ended" and where != "gcore" else set()
        assert report.edges() == {tuple(edge) for edge in sample.truth.deadlock} | hopeless, where
        for holder in lock["holders"]:
            assert (holder["evidence"], holder["why_code"]["code"]) == ("derived", "in-suspended-greenlet"), where
            assert holder["taken_at"]["function"] == ("main" if variant == "main" else "hold"), where
        if variant == "released":
            assert [report.role(number) for number in lock["candidates"]] == ["main"], where
