"""Programs linked with musl: their locks, with and without symbols, shared and static."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support import samples
from tests.support.launcher import launch
from tests.support.musl import COMPILER, LINKED

pytestmark = pytest.mark.skipif(COMPILER is None, reason="musl-gcc is not installed; Debian has it in musl-tools")


@pytest.fixture(scope="module", params=LINKED)
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made: Path = tmp_path_factory.mktemp("musl") / request.param
    subprocess.run([str(COMPILER), "-O2", *LINKED[request.param], "-o", made, samples.SOURCES / "musl_locks.c"],
                   check=True)
    return made


def report(program: Path, way: str, *rest: str) -> dict[str, Any]:
    with subprocess.Popen([program, way, *rest], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            samples.wait_until(lambda: all_asleep(process.pid), "threads that wait")
            return launch("report", str(process.pid), "--json", gdb=None).document()
        finally:
            process.kill()


def all_asleep(pid: int) -> bool:
    """Whether all three threads, or two, wait in a system call."""
    calls = [path.read_text().split()[0] for path in Path(f"/proc/{pid}/task").glob("*/syscall")]
    return len(calls) > 1 and "running" not in calls


def waits(document: dict[str, Any]) -> list[str]:
    """The kinds of the locks that threads wait for."""
    locks = {row["id"]: row["kind"] for row in document["locks"]}
    return sorted(locks[row["waits"]["lock"]] for row in document["threads"] if row["waits"] and row["waits"]["lock"])


@pytest.mark.parametrize("kind", ["recursive", "errorcheck"])
def test_mutexes_that_record_their_owner(program: Path, kind: str) -> None:
    document = report(program, "abba", kind)
    assert document["verdict"]["kind"] == "deadlock"
    cycle, = document["deadlocks"]
    assert cycle["evidence"] == "recorded"
    assert sorted(edge["waiter"] for edge in cycle["edges"]) == [2, 3]
    assert waits(document) == ["mutex", "mutex", "thread-exit"]


def test_normal_mutexes_record_no_owner(program: Path) -> None:
    """Only where the machine code names the functions it proves their holders."""
    document = report(program, "abba")
    mutexes = [row for row in document["locks"] if row["kind"] == "mutex"]
    assert len(mutexes) == 2
    if document["verdict"]["kind"] == "deadlock":
        assert [each["evidence"] for each in document["deadlocks"]] == ["derived"]
        assert {holder["thread"] for row in mutexes for holder in row["holders"]} == {2, 3}
    else:
        assert document["verdict"]["kind"] == "standstill"
        assert all(not row["holders"] and "records no owner" in str(row) for row in mutexes)


@pytest.mark.parametrize(("way", "kinds"), [
    ("rwlock", ["mutex", "rwlock", "thread-exit"]), ("condvar", ["condvar", "condvar", "thread-exit"]),
    ("semaphore", ["semaphore", "semaphore", "thread-exit"]), ("barrier", ["barrier"] * 3),
    ("join", ["mutex", "thread-exit"])])
def test_kinds_are_recognised(program: Path, way: str, kinds: list[str]) -> None:
    document = report(program, way)
    assert waits(document) == kinds
    assert document["verdict"]["kind"] in ("deadlock", "standstill")
    assert str(document["target"]["libc"]).startswith("musl")


def test_barrier_knows_how_many_have_arrived(program: Path) -> None:
    barrier, = [row for row in report(program, "barrier")["locks"] if row["kind"] == "barrier"]
    assert barrier["state"] == "3 of 4 arrived"
    assert barrier["holders"] == []


@pytest.mark.parametrize("way", ["busy", "pool"])
def test_programs_that_work_are_no_deadlock(program: Path, way: str) -> None:
    document = report(program, way)
    assert document["deadlocks"] == []
    assert document["verdict"]["kind"] not in ("deadlock", "standstill")


def test_stacks_are_found_by_return_addresses(program: Path) -> None:
    document = report(program, "semaphore")
    stacks = {row["number"]: [frame.get("function") for frame in row["stack"]] for row in document["threads"]}
    assert all(len(stack) >= 3 for stack in stacks.values())
    if program.name in ("shared", "static"):
        assert "wait_for_work" in stacks[2]
        assert "main" in stacks[1]
    assert "memset" not in str(stacks)
    assert "found by return addresses" in str(document["problems"])

