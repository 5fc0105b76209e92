"""Which files are cores, and which snapshots a run takes."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import json
import lzma
import os
import shutil
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gdbext.launcher import cli
from gdbext.launcher.snapshots.cores import is_core
from gdbext.launcher.snapshots.options import Options, Target
from gdbext.launcher.snapshots.snapshot import Snapshot
from gdbext.launcher.status import NO_GDB, Unreadable
from gdbext.launcher.verbs import dask, triage
from gdbext.render.escape import NOTHING, Safe
from gdbext.schema.write import document
from tests.support.fake_report import gil_deadlock, healthy

CORE = b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HHI", 4, 62, 1) + bytes(4096)
PROGRAM = b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HHI", 2, 62, 1) + bytes(4096)
BIG_ENDIAN = b"\x7fELF\x01\x02\x01" + bytes(9) + struct.pack(">HHI", 4, 20, 1) + bytes(4096)

# -- finding cores -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("content", "expected"), [
    (CORE, True), (BIG_ENDIAN, True), (gzip.compress(CORE), True), (lzma.compress(CORE), True),
    (bz2.compress(CORE), True), (PROGRAM, False), (gzip.compress(PROGRAM), False), (b"", False), (CORE[:12], False),
    (b"\x1f\x8b", False), (b"\xfd7zXZ\0 and more", False), (b"core", False),
], ids=["core", "big-endian", "gzip", "xz", "bzip2", "program", "program in gzip", "empty", "cut", "no gzip",
        "no xz", "name"])
def test_core_is_recognised_by_its_content(tmp_path: Path, content: bytes, expected: bool) -> None:
    path = tmp_path / "anything.txt"
    path.write_bytes(content)
    assert is_core(path) is expected


@pytest.mark.parametrize("program", ["zstd", "lz4"])
def test_core_packed_by_a_program_is_recognised(tmp_path: Path, program: str) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    for name, content in (("core", CORE), ("program", PROGRAM)):
        (tmp_path / name).write_bytes(content * 200)
        with open(tmp_path / name, "rb") as file, open(tmp_path / f"{name}.packed", "wb") as packed:
            subprocess.run([program, "-qc"], stdin=file, stdout=packed, check=True)
    assert is_core(tmp_path / "core.packed")
    assert not is_core(tmp_path / "program.packed")


def test_core_without_its_program_is_not_recognised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "core.zst").write_bytes(b"\x28\xb5\x2f\xfd" + bytes(100))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not is_core(tmp_path / "core.zst")


def test_pipe_or_broken_link_is_not_a_core(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    os.symlink("/nowhere", tmp_path / "link")
    assert not is_core(tmp_path / "pipe")
    assert not is_core(tmp_path / "link")
    assert not is_core(tmp_path / "gone")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with four cores and other files."""
    cores = tmp_path / "cores"
    (cores / "host2").mkdir(parents=True)
    for name in ("b", "a", "host2/core.7"):
        (cores / name).write_bytes(CORE)
    (cores / "c.gz").write_bytes(gzip.compress(CORE))
    (cores / "core").write_bytes(b"a text that is called core")
    (cores / "program").write_bytes(PROGRAM)
    monkeypatch.chdir(tmp_path)
    return Path("cores")


def test_targets_are_found_once_in_order(folder: Path) -> None:
    found = list(triage.find_targets(["4711", "cores", "cores/a", "cores/core", "4711"]))
    assert [target.name for target in found] == [
        "process 4711", "cores/a", "cores/b", "cores/c.gz", "cores/host2/core.7", "cores/core"]
    with pytest.raises(Unreadable, match="nothing is not a folder, a file or a PID"):
        list(triage.find_targets(["nothing"]))


# -- snapshots -----------------------------------------------------------------------------------------------


class Snapshots:
    """Replaces snapshots by GDB, and counts them."""

    def __init__(self) -> None:
        self.at: list[str] = []
        self.answers: dict[str, Callable[[str], Snapshot]] = {}

    def __call__(self, target: Target, options: Options) -> Snapshot:
        self.at.append(target.name)
        return self.answers.get(target.name, answer)(target.name)


def answer(name: str, made: dict[str, Any] | None = None) -> Snapshot:
    line = json.dumps(made or document(healthy())).encode()
    return Snapshot(name, line, Safe("text"), NOTHING, None, 0.1, None, None, 0)


def failure(name: str, status: int = 3) -> Snapshot:
    return Snapshot(name, None, NOTHING, NOTHING, None, 0.1, "truncated", "make a whole one", status)


@pytest.fixture
def snapshots(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Snapshots:
    made = Snapshots()
    monkeypatch.setattr(triage, "take_snapshot", made)
    monkeypatch.setattr(cli, "VERBS", ("triage",))
    return made


def stopped(name: str) -> Snapshot:
    raise KeyboardInterrupt


def test_run_groups_cores_and_lists_failures(folder: Path, snapshots: Snapshots, capsys: pytest.CaptureFixture[str],
                                             tmp_path: Path) -> None:
    snapshots.answers = {"cores/b": lambda name: answer(name, document(gil_deadlock())), "cores/c.gz": failure}
    assert cli.main(["triage", "cores", "--json"]) == 1
    told = capsys.readouterr()
    found = json.loads(told.out)
    assert [(each["kind"], each["members"]) for each in found["classes"]] == [
        ("deadlock", ["cores/b"]), ("other", ["cores/a", "cores/host2/core.7"])]
    assert found["failures"] == [{"target": "cores/c.gz", "problem": "truncated", "hint": "make a whole one"}]
    assert told.err == "gdbext triage: cores/c.gz: truncated; make a whole one\n"
    assert sorted(snapshots.at) == ["cores/a", "cores/b", "cores/c.gz", "cores/host2/core.7"]


def test_stopped_run_reports_what_was_read(folder: Path, snapshots: Snapshots,
                                           capsys: pytest.CaptureFixture[str]) -> None:
    snapshots.answers = {"cores/b": lambda name: answer(name, document(gil_deadlock())), "cores/host2/core.7": stopped}
    assert cli.main(["triage", "cores", "--jobs", "1", "--json"]) == 130
    told = capsys.readouterr()
    found = json.loads(told.out)
    assert [(each["kind"], each["members"]) for each in found["classes"]] == [
        ("deadlock", ["cores/b"]), ("other", ["cores/a", "cores/c.gz"])]
    assert "gdbext triage: interrupted; 3 of 4 were read\n" in told.err


def test_run_that_stops_at_once_reports_nothing(folder: Path, snapshots: Snapshots,
                                                capsys: pytest.CaptureFixture[str]) -> None:
    snapshots.answers = {"cores/a": stopped}
    assert cli.main(["triage", "cores", "--jobs", "1"]) == 130
    assert capsys.readouterr().out == ""


def test_one_document_of_each_class_is_kept(folder: Path, snapshots: Snapshots) -> None:
    read = triage.Collected(4)
    read.take(list(triage.find_targets(["cores"])), Options(), 2)
    (only,) = read.grouped().classes
    assert only.members == ("cores/a", "cores/b", "cores/c.gz", "cores/host2/core.7")
    assert only.document == document(healthy())


def test_missing_gdb_ends_the_run(folder: Path, snapshots: Snapshots, capsys: pytest.CaptureFixture[str]) -> None:
    snapshots.answers = {"cores/a": lambda name: failure(name, NO_GDB)}
    assert cli.main(["triage", "cores", "--jobs", "1"]) == 4
    assert "gdbext triage: truncated; make a whole one\n" in capsys.readouterr().err
    assert snapshots.at[:1] == ["cores/a"]


def test_incomplete_snapshot_is_listed_as_such(folder: Path, snapshots: Snapshots,
                                               capsys: pytest.CaptureFixture[str]) -> None:
    snapshots.answers = {
        "cores/a": lambda name: replace(answer(name), problem="cut off", status=3)}
    assert cli.main(["triage", "cores/a", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["incomplete"] == [{"target": "cores/a", "problem": "cut off", "hint": None}]
    assert found["failures"] == []


def test_folder_without_cores_is_an_error(folder: Path, snapshots: Snapshots,
                                          capsys: pytest.CaptureFixture[str]) -> None:
    Path("empty").mkdir()
    assert cli.main(["triage", "empty"]) == 3
    assert "no core was found in empty" in capsys.readouterr().err


def test_invalid_targets_exit_with_2(snapshots: Snapshots, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["triage"], ["triage", "1", "--jobs", "0"]):
        with pytest.raises(SystemExit) as ended:
            cli.main(arguments)
        assert ended.value.code == 2
    capsys.readouterr()


# -- by a cluster --------------------------------------------------------------------------------------------


class Cluster(Snapshots):
    """Stands in for the workers of a Dask cluster."""

    jobs = 2

    def __init__(self) -> None:
        super().__init__()
        self.named: list[tuple[str, str | None]] = []
        self.ended = threading.Event()

    @contextlib.contextmanager
    def remote_snapshots(self, address: str, package: str | None) -> Iterator[Cluster]:
        self.named.append((address, package))
        yield self

    def take_snapshot(self, target: Target, options: Options) -> Snapshot:
        assert options.stacks == "none"
        return self(target, options)

    def end(self) -> None:
        self.ended.set()


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    made = Cluster()
    monkeypatch.setattr(dask, "remote_snapshots", made.remote_snapshots)
    return made


def test_dask_workers_take_the_snapshots(folder: Path, snapshots: Snapshots, cluster: Cluster,
                                         capsys: pytest.CaptureFixture[str]) -> None:
    cluster.answers = {"cores/b": lambda name: answer(name, document(gil_deadlock()))}
    assert cli.main(["triage", "cores", "--dask", "tcp://s:8786", "--package", "/shared"]) == 1
    assert capsys.readouterr().out.startswith("4 cores: 1 deadlocked, 0 crashed, 3 neither; 2 classes\n")
    assert cluster.named == [("tcp://s:8786", "/shared")]
    assert sorted(cluster.at) == ["cores/a", "cores/b", "cores/c.gz", "cores/host2/core.7"]
    assert snapshots.at == []


def test_machine_of_a_cluster_without_gdb_is_a_failure(folder: Path, snapshots: Snapshots, cluster: Cluster,
                                                       capsys: pytest.CaptureFixture[str]) -> None:
    cluster.answers = {"cores/a": lambda name: failure(name, NO_GDB)}
    assert cli.main(["triage", "cores", "--dask", "s:8786", "--json"]) == 3
    found = json.loads(capsys.readouterr().out)
    assert found["count"] == 3
    assert found["failures"] == [{"target": "cores/a", "problem": "truncated", "hint": "make a whole one"}]


def test_snapshots_of_a_cluster_end_with_the_run(folder: Path, snapshots: Snapshots, cluster: Cluster,
                                                 capsys: pytest.CaptureFixture[str]) -> None:
    begun = threading.Event()

    def wait(name: str) -> Snapshot:
        begun.set()
        assert cluster.ended.wait(20)
        return failure(name)

    def stop(name: str) -> Snapshot:
        assert begun.wait(20)
        raise KeyboardInterrupt

    cluster.answers = {"cores/a": wait, "cores/b": stop}
    assert cli.main(["triage", "cores", "--dask", "s:8786"]) == 130
    assert sorted(cluster.at) == ["cores/a", "cores/b"]
    capsys.readouterr()


@pytest.mark.parametrize(("arguments", "reason"), [
    (["4711", "--dask", "s:8786"], "--dask needs cores: "),
    (["cores", "--package", "/shared"], "--package needs --dask; leave it out\n"),
])
def test_options_that_contradict_are_bad_usage(folder: Path, snapshots: Snapshots, arguments: list[str], reason: str,
                                               capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["triage", *arguments]) == 2
    *usage, complaint = capsys.readouterr().err.splitlines(keepends=True)
    assert usage[0].startswith("usage: gdbext triage ")
    assert complaint.startswith(f"gdbext triage: {reason}")


def test_missing_dask_is_bad_usage(folder: Path, snapshots: Snapshots, monkeypatch: pytest.MonkeyPatch,
                                   capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert cli.main(["triage", "cores", "--dask", "s:8786"]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("gdbext triage: Dask cannot be imported: ")
    assert told.err.endswith("; pip install 'gdbext[dask]'\n")
    assert snapshots.at == []
