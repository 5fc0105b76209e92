"""`py-threads-locks --tasks` compared with what an asyncio program prints about its loops and tasks.

Not with CPython 3.6, which keeps its tasks in other places and has been out of support since 2021.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support import combinations, cores, gdb_session, interpreters, roots, samples
from tests.support.report import Json
from tests.support.samples import HERE, Place, Sample

NAMES = tuple(name for name in interpreters.NAMES if not name.startswith("3.6"))
#: Tasks made in Python are read as objects are, for which symbols are not used: stripped copies show those made in C.
CASES = [case for case in combinations.cases(NAMES, ("tree", "python"), ("live", "kernel-core"))
         if combinations.LONG or not (case[0].endswith("-stripped") and case[1] == "python")]
ROOT_NAMES = ("sid-3.13", "sid-3.14", "sid-3.15", "sid-3.14-dbg", "bullseye", "trixie")
COMMANDS = ("py-threads-locks --tasks --json", "py-threads-locks --tasks --stacks=none")
#: The time limit for a snapshot of 10,000 tasks, in seconds.
SECONDS_FOR_MANY = 2.0


class TaskSample:
    """A running sample, and what it printed about its tasks."""

    def __init__(self, sample: Sample) -> None:
        self.sample = sample
        self.truth: dict[str, Any] = json.loads((sample.directory / "tasks.json").read_text())
        #: name by address, in the format of the JSON
        self.names = {task["address"]: name for name, task in self.truth.get("tasks", {}).items()}

    def thread(self, document: Json, role: str | None) -> int | None:
        """The GDB number of the thread that a loop runs in."""
        if role is None:
            return None
        tid = self.sample.truth.threads[role].tid
        (number,) = [row["number"] for row in document["threads"] if tid in (row["tid"], row["lwp"])]
        return int(number)

    def check(self, document: Json) -> None:
        """Compare a document with the truth."""
        assert document["problems"] == []
        loops = {loop["address"]: (loop["type"], self.thread(document, loop["role"]))
                 for loop in self.truth["loops"].values()}
        assert {row["id"]: (row["kind"], row["thread"]) for row in document["event_loops"]} == loops
        rows = {self.names.get(row["id"], row["id"]): row for row in document["tasks"]}
        assert set(rows) == set(self.truth["tasks"])
        assert len(rows) == len(document["tasks"]), "a task is listed twice"
        awaited_by: dict[str, set[str]] = {name: set() for name in rows}
        for name, expected in self.truth["tasks"].items():
            self.check_task(name, rows[name], expected, document)
            for other in expected["tasks"]:
                awaited_by[other].add(name)
        assert {name: self.roles(row["awaited_by"]) for name, row in rows.items()} == awaited_by
        found = [[self.names[address] for address in cycle] for cycle in document["task_cycles"]]
        assert sorted(map(rotated, found)) == sorted(map(rotated, self.truth["cycles"]))

    def check_task(self, name: str, row: Json, expected: Json, document: Json) -> None:
        assert row["name"] == (name if expected["named"] else None)
        loop = self.truth["loops"][expected["loop"]]
        assert (row["loop"], row["thread"]) == (loop["address"], self.thread(document, loop["role"])), name
        assert row["state"] == expected["state"], name
        assert [[frame["function"], frame["file"], frame["line"]] for frame in row["stack"]] == expected["stack"], name
        awaits = row["awaits"]
        assert self.roles(awaits["tasks"]) == set(expected["tasks"]), name
        assert self.names.get(awaits["task"]) == (
            expected["tasks"][0] if len(expected["tasks"]) == 1 and not expected["others"] else None), name
        assert awaits["other_futures"] == expected["others"], name
        words = [word for word in (expected["kind"], expected["object"], expected["name"]) if word]
        assert awaits["what"] == (" ".join(words) or None), name
        assert self.roles(awaits["holders"]) == set(expected["holders"]), name
        assert awaits["timed"] is expected["timed"], name

    def roles(self, addresses: Sequence[str]) -> set[str]:
        return {self.names.get(address, address) for address in addresses}

    def check_text(self, text: str) -> None:
        """Check that the tree has each task once with its state, and the facts that a reader needs first."""
        heads = [line.strip() for line in text.splitlines() if line.strip().startswith(("Task ", "2 tasks "))]
        listed = [name for name, task in self.truth["tasks"].items()
                if any(task["address"] in head.partition(" waits ")[0] for head in heads)
                or any(task["address"] in head.partition(":")[0] for head in heads)]
        assert set(listed) == set(self.truth["tasks"])
        assert f"held by {self.label('holder')}" in text
        assert text.count("Cycle of tasks") == len(self.truth["cycles"])
        ring = " -> ".join(self.label(name) for name in ("ring-a", "ring-b", "ring-c"))
        assert any(turn in text for turn in turns(ring))

    def label(self, name: str) -> str:
        """The name of a task in the text."""
        task = self.truth["tasks"][name]
        return (f'"{name}" ' if task["named"] else "") + str(task["address"])


def rotated(cycle: Sequence[str]) -> list[str]:
    """A cycle, starting from the member with the first name."""
    start = list(cycle).index(min(cycle))
    return [*cycle[start:], *cycle[:start]]


def turns(ring: str) -> list[str]:
    """A cycle, written starting from each of its members."""
    names = ring.split(" -> ")
    return [" -> ".join([*names[i:], *names[:i + 1]]) for i in range(len(names))]


@contextmanager
def running(python: Path, arguments: Sequence[str], directory: Path, place: Place = HERE) -> Iterator[TaskSample]:
    # the sample uses functions that newer versions call deprecated
    argv: list[str | Path] = [python, "-W", "ignore", samples.SOURCES / "tasks.py", *arguments]
    with samples.running(argv, directory, place=place) as sample:
        yield TaskSample(sample)


def check_snapshot(
    tasks: TaskSample, where: Sequence[str | Path], symbols: bool, gdb: Sequence[str | Path] = ()
) -> None:
    """Run the command and compare."""
    session = gdb_session.batch(where, COMMANDS, symbols=symbols, gdb=gdb, directory=tasks.sample.directory)
    assert session.status == 0
    assert "Traceback" not in session.stderr
    tasks.check(session.document(0))
    tasks.check_text(session.outputs[1])


@pytest.mark.parametrize(("name", "variant", "target"), CASES)
def test_tasks(name: str, variant: str, target: str, tmp_path: Path) -> None:
    """Tasks of the C implementation and of the Python one."""
    python, symbols = interpreters.use(name)
    with running(python, [variant], tmp_path) as tasks, cores.place(tasks.sample, python, target) as where:
        check_snapshot(tasks, where, symbols)


@pytest.mark.parametrize("variant", ["tree", "python"])
@pytest.mark.parametrize("name", ROOT_NAMES)
def test_tasks_in_another_debian(name: str, variant: str, tmp_path: Path) -> None:
    """The release's GDB reads the process, this machine's GDB the core."""
    root = roots.use(name) if name in interpreters.SUITES else roots.use_python(name)
    with running(root.python, [variant], tmp_path, root.place) as tasks:
        check_snapshot(tasks, ["-p", str(tasks.sample.pid)], False, root.gdb)
        core = cores.kernel_core(tasks.sample)
        check_snapshot(tasks, [*root.sysroot, root.outside(root.python), core], False)
    core.unlink()


@pytest.mark.parametrize("name", ["3.12", "3.13"])
def test_task_running_inside_another(name: str, tmp_path: Path) -> None:
    """Only the inner one is the loop's current task, but the outer one is running too."""
    python, symbols = interpreters.use(name)
    with running(python, ["eager"], tmp_path) as tasks:
        document = gdb_session.batch(["-p", str(tasks.sample.pid)], COMMANDS[:1], symbols=symbols).document()
    found = {row["stack"][-1]["function"]: (row["state"], [frame["function"] for frame in row["stack"][:2]])
             for row in document["tasks"]}
    assert found == dict.fromkeys(["outer", "inner"], ("running", ["block", "inner"]))


def test_tasks_are_left_out_without_the_option(tmp_path: Path) -> None:
    python, symbols = interpreters.use(interpreters.ANY)
    with running(python, ["tree"], tmp_path) as tasks:
        session = gdb_session.batch(["-p", str(tasks.sample.pid)], ["py-threads-locks --json", "py-threads-locks"],
                                    symbols=symbols)
    # the verdict rests on tasks, so the document has them wherever there is an event loop
    listed = {task["id"] for task in session.document(0)["tasks"]}
    assert {task["address"] for task in tasks.truth["tasks"].values()} <= listed
    assert session.document(0)["verdict"]["kind"] == "task-cycle"
    assert "Event loop" not in session.outputs[1]


def test_program_without_asyncio(tmp_path: Path) -> None:
    with samples.abba("mutex", tmp_path) as sample:
        session = gdb_session.batch(["-p", str(sample.pid)], COMMANDS)
    document = session.document(0)
    assert (document["event_loops"], document["tasks"], document["task_cycles"]) == ([], [], [])
    assert "No event loop of asyncio" in session.outputs[1]


@pytest.mark.parametrize("name", ["3.7", "3.11", "3.13"])
def test_ten_thousand_tasks(name: str, tmp_path: Path) -> None:
    python, symbols = interpreters.use(name)
    with running(python, ["many", "10000"], tmp_path) as tasks:
        session = gdb_session.batch(
            ["-p", str(tasks.sample.pid)],
            ["python import time; started = time.process_time()", "py-threads-locks --tasks --stacks=top",
             "python print(time.process_time() - started)", "py-threads-locks --tasks --json"],
            symbols=symbols)
    # checking the schema would take seconds; a document with a task of each sort is checked above
    document = json.loads(session.outputs[3])
    assert len(document["tasks"]) == tasks.truth["count"]
    event = f"asyncio.Event {tasks.truth['event']} event"
    waiting = [row for row in document["tasks"] if row["awaits"]["what"] == event]
    assert len(waiting) == 10000
    (gathering,) = [row for row in document["tasks"] if row["awaits"]["what"] == "asyncio.gather"]
    assert set(gathering["awaits"]["tasks"]) == {row["id"] for row in waiting}
    assert document["problems"] == []
    text = session.outputs[1]
    assert "10,000 tasks" in text
    assert len(text.splitlines()) < 60, "tasks at the same place are shown once"
    assert float(session.outputs[2]) < SECONDS_FOR_MANY
