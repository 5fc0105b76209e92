"""`gdbext triage` on real cores, and `gdbext report PID --children` on processes that wait for each other."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from gdbext.inferior.proc.status import process_tree
from gdbext.inferior.proc.threads import read_tasks
from gdbext.model import EXCLUSIVE, Report, Runtime, TargetInfo, Thread, Wait
from gdbext.processes import graph as process_graph
from gdbext.processes import waits as process_edges
from tests.support import cores, crashes, gdb_session, samples
from tests.support.interpreters import CHECKOUT
from tests.support.patience import patience

Json = dict[str, Any]

SCHEMA = json.loads((CHECKOUT / "docs" / "gdbext-triage-1.schema.json").read_text(encoding="utf-8"))
SYSCALLS = json.loads((CHECKOUT / "gdbext" / "arch" / "x86_64" / "system_calls.json").read_text(encoding="utf-8"))
#: Scenes of tests/samples/processes.py that GDB inspects; all scenes are inspected without GDB.
SCENES = ("waitpid", "lock", "mutexes", "threads", "files", "pipeline")


def command(*arguments: str | Path) -> list[str]:
    verb, *rest = map(str, arguments)
    return [sys.executable, "-m", "gdbext", verb, "--gdb", gdb_session.executable(), *rest]


def environment(home: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(CHECKOUT), "TERM": "dumb"}


def checked(text: str) -> Json:
    """Parse a document and check it by its schema."""
    made: Json = json.loads(text)
    assert [f"{error.json_path}: {error.message}" for error in Draft202012Validator(SCHEMA).iter_errors(made)] == []
    for each in made["classes"]:
        assert gdb_session.violations(each["document"]) == []
    return made


# -- cores ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cores:
    """A folder with cores of several programs, and the output of `gdbext triage`."""

    folder: Path
    out: str
    err: str
    status: int


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two cores of a deadlock, one of them compressed, one of another deadlock, two of a crash, and other files."""
    home = tmp_path_factory.mktemp("triage")
    kept = home / "cores"
    kept.mkdir()
    for name, variant in (("one", "mutex"), ("two", "mutex"), ("three", "rwlock")):
        with samples.abba(variant, home / name) as sample:
            core = cores.kernel_core(sample)
            core.rename(kept / name)
    (kept / "two.log").write_bytes(gzip.compress((kept / "two").read_bytes(), 1))
    (kept / "two").unlink()
    with crashes.crash("null-read", "3.11", "kernel-core", home / "crash") as crash:
        for name in ("crash1", "crash2"):
            shutil.copy(crash.gdb_args[-1], kept / name)
    (kept / "core").write_text("no core")
    data = (kept / "crash1").read_bytes()
    (kept / "truncated").write_bytes(data[:2000])
    return kept


@pytest.fixture(scope="module")
def triaged(folder: Path) -> Cores:
    done = subprocess.run(command("triage", folder, "--json", "--html", folder.parent / "page.html"), text=True,
                          env=environment(folder.parent / "state"), capture_output=True, timeout=patience(120),
                          check=False)
    return Cores(folder, done.stdout, done.stderr, done.returncode)


def test_cores_are_grouped_by_what_happened(triaged: Cores) -> None:
    found = checked(triaged.out)
    classes = [(each["kind"], [Path(member).name for member in each["members"]]) for each in found["classes"]]
    assert classes == [("deadlock", ["one", "two.log"]), ("deadlock", ["three"]), ("crash", ["crash1", "crash2"])]
    assert "mutex" in found["classes"][0]["title"]
    assert "rwlock" in found["classes"][1]["title"]
    assert found["classes"][2]["title"].startswith("SIGSEGV, null-")
    assert triaged.status == 1


def test_unreadable_core_gives_one_line(triaged: Cores) -> None:
    (failure,) = json.loads(triaged.out)["failures"]
    assert Path(failure["target"]).name == "truncated"
    assert [line for line in triaged.err.splitlines() if "not read" not in line and " left" not in line] == [
        f"gdbext triage: {failure['problem']}; {failure['hint']}"]
    assert failure["problem"].startswith(f"{failure['target']}: ")


def test_page_has_every_core(triaged: Cores) -> None:
    page = (triaged.folder.parent / "page.html").read_text()
    assert all(name in page for name in ("crash2", "two.log", "truncated", "rwlock"))


def test_interrupted_run_reports_what_was_read(triaged: Cores, tmp_path: Path) -> None:
    argv = command("triage", *[triaged.folder / name for name in ("one", "truncated", "three", "two.log", "core")],
                   "--jobs", "1", "--json")
    with subprocess.Popen(argv, env=environment(tmp_path), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          start_new_session=True, preexec_fn=samples.accept_interrupts) as process:
        try:
            assert process.stderr is not None
            # the second target cannot be read, so there is a line about it
            assert "truncated" in process.stderr.readline()
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=patience(120))
        finally:
            process.kill()
    assert process.returncode == 130
    count = re.search(r"interrupted; (\d) of 5 were read", err)
    assert count is not None
    assert 2 <= int(count[1]) < 5
    assert json.loads(out)["classes"][0]["kind"] == "deadlock"


# -- processes -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Family:
    """The processes of a sample: those of each scene, and whether they are deadlocked."""

    pid: int
    scenes: dict[str, tuple[list[int], bool]]


@contextlib.contextmanager
def family(directory: Path, scenes: tuple[str, ...] = ()) -> Iterator[Family]:
    argv: list[str | Path] = [sys.executable, samples.SOURCES / "processes.py", *scenes]
    with samples.running(argv, directory) as sample:
        played = {scene["scene"]: (scene["pids"], scene["deadlocked"]) for scene in json.loads(sample.read_line())}
        try:
            hung = [pid for pids, deadlocked in played.values() if deadlocked for pid in pids]
            seen: list[Any] = []

            def at_rest() -> bool:
                seen.append([read_tasks(pid) for pid in hung])
                time.sleep(0.05)
                return len(seen) > 2 and seen[-1] == seen[-2] == seen[-3]

            samples.wait_until(at_rest, "the processes to wait for each other", seen=lambda: seen[-3:])
            yield Family(sample.pid, played)
        finally:
            # parents first, because a pool replaces a worker that died
            for pid, _ in process_tree(sample.pid)[1:]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def bare_report(pid: int) -> Report:
    """A minimal report of a Python: the threads, their system calls, and no locks except descriptors."""
    threads = []
    for number, (tid, task) in enumerate(read_tasks(pid).items(), 1):
        name = None if task.call is None else SYSCALLS["names"].get(str(task.call.number))
        on = name in ("read", "write", "recvfrom", "sendto")
        threads.append(Thread(number, tid, tid, "x", status="running" if name is None else "blocked", syscall=name,
                              waits=Wait(f"descriptor:{task.call.arguments[0]:#x}", EXCLUSIVE, False)
                              if task.call is not None and on else None))
    runtime = Runtime("3.11.2", "default", 0x1000, "table", "python3.11", ())
    return Report(TargetInfo("live", pid, None, "x86_64", None), (runtime,), threads=tuple(threads))


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bool]:
    """Whether each scene is found deadlocked without GDB, in enough snapshots to catch rare moments."""
    with family(tmp_path_factory.mktemp("scenes") / "all") as members:
        assert len(members.scenes) == 16
        found = dict.fromkeys(members.scenes, False)
        for _ in range(2):
            reports = {pid: bare_report(pid) for pid, _ in process_tree(members.pid)}
            scene = process_edges.watch(reports)
            assert scene.blind is None
            for deadlock in process_graph.find_deadlocks(scene.waits, scene.dead):
                (name,) = [name for name, (pids, _) in members.scenes.items() if set(pids) & set(deadlock.processes)]
                assert set(deadlock.processes) == set(members.scenes[name][0])
                found[name] = True
        return found


@pytest.mark.parametrize("scene", ["pipes", "full_pipes", "waitpid", "lock", "files", "ranges"])
def test_deadlocks_of_processes(everything: dict[str, bool], scene: str) -> None:
    assert everything[scene]


@pytest.mark.parametrize("scene", ["pipeline", "outside", "event_loop", "ping_pong", "signals", "inherited",
                                   "alarmed", "pool"])
def test_healthy_processes_have_no_deadlock(everything: dict[str, bool], scene: str) -> None:
    assert not everything[scene]


@dataclass(frozen=True)
class Output:
    """The output of `report --children`, as JSON and as text, and the processes."""

    members: Family
    document: Json
    text: str
    err: str
    status: int

    def deadlock(self, scene: str) -> Json:
        """The only deadlock of a scene's processes."""
        pids = self.members.scenes[scene][0]
        (found,) = [each for each in self.document["processes"]["deadlocks"] if set(each["processes"]) & set(pids)]
        assert set(found["processes"]) == set(pids)
        made: Json = found
        return made

    def edge(self, scene: str, member: int) -> Json:
        """The edge from one of the scene's processes to others."""
        pid = self.members.scenes[scene][0][member]
        (found,) = [edge for edge in self.deadlock(scene)["edges"] if edge["pid"] == pid and edge["kind"] != "lock"]
        made: Json = found
        return made


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> Output:
    home = tmp_path_factory.mktemp("children")
    with family(home / "run", SCENES) as members:
        done = subprocess.run(command("report", str(members.pid), "--children", "--json", "--html", home / "page.html"),
                              text=True, env=environment(home), capture_output=True, timeout=patience(120), check=False)
        assert "Traceback" not in done.stderr, done.stderr
        root = members.scenes["waitpid"][0][0]
        text = subprocess.run(command("report", str(root), "--children", "--stacks", "none"), text=True,
                              env=environment(home), capture_output=True, timeout=patience(120), check=False)
        alive = [read_tasks(pid) for pids, _ in members.scenes.values() for pid in pids]
    assert all(alive)
    page = (home / "page.html").read_text()
    assert all(f"process {pid}" in page for pids, _ in members.scenes.values() for pid in pids)
    return Output(members, checked(done.stdout), text.stdout, done.stderr, done.returncode)


def test_only_deadlocked_scenes_are_reported(output: Output) -> None:
    found = {tuple(deadlock["processes"]) for deadlock in output.document["processes"]["deadlocks"]}
    assert found == {tuple(sorted(pids)) for pids, deadlocked in output.members.scenes.values() if deadlocked}
    assert output.status == 1


def test_tree_has_every_process(output: Output) -> None:
    tree = {each["pid"]: each["parent"] for each in output.document["processes"]["tree"]}
    assert set(tree) == {output.members.pid, *(pid for pids, _ in output.members.scenes.values() for pid in pids)}
    for pids, _ in output.members.scenes.values():
        assert tree[pids[0]] == output.members.pid
        assert all(tree[pid] == pids[0] for pid in pids[1:])
    assert output.document["failures"] == []


def test_parent_and_child_wait_for_each_other(output: Output) -> None:
    parent, child = output.members.scenes["waitpid"][0]
    assert output.edge("waitpid", 0) == {
        "pid": parent, "thread": 1, "kind": "child", "what": f"for the end of process {child}", "holders": [child],
        "holder": 1, "evidence": "recorded", "why": None}
    reads = output.edge("waitpid", 1)
    assert (reads["kind"], reads["holders"], reads["evidence"]) == ("pipe", [parent], "inferred")


def test_multiprocessing_lock_held_by_a_child(output: Output) -> None:
    parent, child = output.members.scenes["lock"][0]
    wants = output.edge("lock", 0)
    assert (wants["kind"], wants["holders"], wants["evidence"]) == ("semaphore", [child], "derived")
    assert wants["what"] == "for multiprocessing.Lock guard"
    assert output.edge("lock", 1)["kind"] == "socket"


def test_process_shared_mutexes(output: Output) -> None:
    pids = output.members.scenes["mutexes"][0]
    assert output.deadlock("mutexes")["evidence"] == "recorded"
    assert [output.edge("mutexes", member)["holders"] for member in (0, 1)] == [[pids[1]], [pids[0]]]
    assert {output.edge("mutexes", member)["what"].rpartition(", ")[2] for member in (0, 1)} == {"0x0)", "0x40)"}


def test_locks_on_files(output: Output) -> None:
    pids = output.members.scenes["files"][0]
    assert output.deadlock("files")["evidence"] == "derived"
    for member in (0, 1):
        edge, other = output.edge("files", member), pids[1 - member]
        assert (edge["kind"], edge["holders"], edge["why"]) == (
            "file-lock", [other], f"only process {other} has the open file that holds the lock")


def test_threads_link_processes(output: Output) -> None:
    edges = output.deadlock("threads")["edges"]
    inside = [edge for edge in edges if edge["kind"] == "lock"]
    assert [(edge["thread"], edge["what"]) for edge in inside] == [(1, f"for the end of thread {inside[0]['holder']}")]
    assert inside[0]["holder"] == output.edge("threads", 0)["thread"]


def test_healthy_waits_are_not_deadlocks(output: Output) -> None:
    parent, child, worker = output.members.scenes["pipeline"][0]
    waits = {each["pid"]: each for each in output.document["processes"]["waits"]}
    assert waits[parent]["holders"] == [child]
    assert waits[worker]["holders"] == [parent, child]
    # not all processes of other users may be visible
    assert waits[parent]["why"].split("; ")[0] == f"only process {child} has the other end"


def test_text_of_the_processes(output: Output) -> None:
    parent, child = output.members.scenes["waitpid"][0]
    name = Path(sys.executable).name
    lines = output.text.splitlines()
    assert lines[0] == "2 processes: 2 deadlocked with each other, 0 with a deadlock of their own"
    (deadlock,) = [line for line in lines if line.startswith(f"Deadlock between processes {parent}, {child} ")]
    assert f"(inferred: only process {parent} has the other end; " in deadlock
    assert deadlock.endswith("; none of these threads can run)")
    waits = f'  process {parent} "{name}" thread 1 "MainThread" waits for the end of process {child}, at '
    assert [line for line in lines if line.startswith(waits) and re.search(r"processes\.py:\d+ in waitpid$", line)]
    # each process has one answer, and no command that leads back to this page
    assert lines[1:3] == [f'  process {parent} "{name}": DEADLOCK with process {child}',
                          f'  process {child} "{name}": DEADLOCK with process {parent}']
    assert not any(line.startswith(("Next: ", "UNKNOWN: ", "BLOCKED: ", "WAITS FOR CHILD ")) for line in lines)
    assert re.search(r"the processes were (not paused|paused one by one, each for \d+\.\d\d s at most); "
                     r"all snapshots were taken within \d", output.err)
