"""Cores read without GDB: the report is that of GDB, also its source lines, except for what only GDB knows."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import pytest

from gdbext.direct.one_snapshot import Request, answer_request
from gdbext.launcher.snapshots.cores import prepare_core
from gdbext.launcher.snapshots.elf import build_id_of
from gdbext.launcher.snapshots.limit import Limit
from gdbext.launcher.snapshots.options import Options, Target
from gdbext.launcher.snapshots.server import end_server
from gdbext.launcher.snapshots.snapshot import take_snapshot
from tests.support import cores, crashes, gdb_session, interpreters, launcher, mini_debug, samples
from tests.support.documents import left_out, unexplained
from tests.support.samples import Sample
from tests.support.without_gdb import CASES as ASLEEP
from tests.support.without_gdb import (
    Json,
    Start,
    assert_nothing_added,
    python,
    python_states,
    stacks,
    without_debug_files,
)


def with_mini_debug(folder: Path) -> AbstractContextManager[Sample]:
    """A stripped program whose symbols are compressed inside, as Fedora's are."""
    program = Path(shutil.copy(samples.build("abba"), folder))
    return samples.running([mini_debug.with_mini_debug(program), "mutex"], folder)


CASES: dict[str, Start] = {
    **ASLEEP,
    "mini-debug": with_mini_debug,
    "abba": lambda folder: samples.abba("mutex", folder),
    "gather-stripped": lambda folder: samples.gather(folder, stripped=True),
    "healthy-native-stripped": lambda folder: samples.healthy_native(folder, stripped=True),
    "healthy": lambda folder: samples.healthy(python(interpreters.ANY), folder),
    "lines": lambda folder: samples.lines(python(interpreters.ANY), folder),
}
#: Crashes, with the Python of each; none for a program without Python.
CRASHES = {"wild": "3.11", "fatal": "3.11", "terminate": "3.11", "underflow": "3.11", "overflow": "3.9",
           "null-call": "3.11", "data-call": "3.13",
           "null-read": "3.11", "misaligned": "3.12", "truncated": "3.11", "divide": "3.11", "trap": "3.11",
           "faulthandler": "3.11", "abort": "3.13", "assert": "3.11", "heap": "3.11", "rust-panic": "3.11",
           "terminate-own": "3.11", "terminate-boundary": "3.11", "use-after-free": "3.11",
           "use-after-free-debug": "3.11", "overflow-main": "3.11", "overflow-c": "3.11", "no-gil-error": "3.13",
           "handle-native": "3.11", "killed": "3.11", "killed-segv": "3.11", "finalised": "3.11",
           "tsan-null": "3.11",
           "no-gil": "3.13", "released": "3.13", "handle": "3.11", "race": "3.13t"}
#: Cases of which GDB writes the core, of the running program.
OF_GCORE = ("abba-stripped", "rapids-3.13", "pylocks", "inlined")


@dataclass(frozen=True)
class Both:
    """The case, two documents of one core, and what the one without GDB left out."""

    name: str
    by_gdb: Json
    direct: Json
    left_out: set[str]


@pytest.fixture(scope="module", autouse=True)
def _without_debug_files() -> Iterator[None]:
    with without_debug_files():
        yield
    end_server()


@pytest.fixture(scope="module", params=CASES)
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Both:
    folder = tmp_path_factory.mktemp("direct")
    with CASES[request.param](folder) as sample:
        core = cores.gdb_core(sample) if request.param in OF_GCORE else cores.kernel_core(sample)
        try:
            return read_both(request.param, core)
        finally:
            core.unlink()


def read_both(name: str, core: Path) -> Both:
    seen = take_snapshot(Target(core=core), Options(gdb=gdb_session.executable(), timeout=gdb_session.TIMEOUT))
    assert seen.document is not None, seen.problem
    direct = json.loads("".join(read_directly(core)["document"]))
    return Both(name, seen.document, direct, left_out(direct))


def read_directly(core: Path) -> Json:
    with prepare_core(core, None, None, (), Limit(60)) as prepared:
        assert prepared.core is not None
        request = Request(executable=prepared.executable, places=prepared.places)
        return answer_request(request, prepared.core)


def test_document_is_that_of_gdb(both: Both) -> None:
    assert gdb_session.violations(both.direct) == []
    assert len(both.direct["threads"]) == len(both.by_gdb["threads"])
    assert unexplained(both.name, both.by_gdb, both.direct, both.left_out) == []
    if not both.left_out:
        assert both.direct == both.by_gdb


def test_what_is_left_out_adds_no_holder_and_no_deadlock(both: Both) -> None:
    assert_nothing_added(both.by_gdb, both.direct)


def test_stacks_are_those_of_gdb(both: Both) -> None:
    """They are the same even where instructions are left out."""
    assert stacks(both.direct) == stacks(both.by_gdb)
    assert python_states(both.direct) == python_states(both.by_gdb)


# -- the command line ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def hang(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A core of two threads that wait for each other; nothing in the program needs GDB."""
    with samples.abba("mutex", tmp_path_factory.mktemp("hang"), stripped=True) as sample:
        return cores.kernel_core(sample)


@pytest.fixture
def path_without_gdb(tmp_path: Path) -> str:
    """A PATH with a folder that has no program."""
    return str(tmp_path)


def run(*arguments: str | Path, **variables: str) -> launcher.Ran:
    """Run a verb without the option --gdb."""
    return launcher.launch_by(launcher.command(*arguments, gdb=None), **variables)


def test_report_without_gdb_has_the_verdict(hang: Path, path_without_gdb: str) -> None:
    for arguments, variables in ((["--no-gdb"], {}), ([], {"PATH": path_without_gdb, "GDBEXT_GDB": ""})):
        done = run("report", hang, "--json", *arguments, **variables)
        document = done.document()
        assert (done.status, document["verdict"]["kind"]) == (1, "deadlock")


def test_gdb_runs_only_if_it_is_named(hang: Path, tmp_path: Path) -> None:
    """A GDB that must not run stands in for GDB; $GDBEXT_GDB only says which one it is."""
    marker, gdb = tmp_path / "ran", tmp_path / "gdb"
    gdb.write_text(f"#!/bin/sh\ntouch {marker}\nexec {shutil.which(gdb_session.executable())} \"$@\"\n")
    gdb.chmod(0o755)
    for variable in ("", str(gdb)):
        done = run("report", hang, "--json", PATH=f"{tmp_path}:{os.environ['PATH']}", GDBEXT_GDB=variable)
        assert done.status == 1
    assert not marker.exists()
    assert launcher.launch("report", hang, "--json", gdb=gdb).status == 1
    assert marker.exists()


def test_target_with_debug_information_is_read_without_gdb(tmp_path: Path) -> None:
    """A GDB that cannot run stands in for GDB. The kernel's core has a signal that another process sent."""
    gdb = tmp_path / "gdb"
    gdb.write_text("#!/bin/sh\nexit 1\n")
    gdb.chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    with samples.abba("mutex", tmp_path) as sample:
        live, core = (run("report", target, "--json", PATH=path, GDBEXT_GDB="").document()
                      for target in (str(sample.pid), cores.gdb_core(sample)))
        killed = run("report", cores.kernel_core(sample), "--json", PATH=path, GDBEXT_GDB="").document()
    for document in (live, core, killed):
        frames = [frame for thread in document["threads"] for frame in thread["stack"]]
        assert any(frame["file"] and frame["file"].endswith("abba.c") and frame["line"] for frame in frames)
        assert document["verdict"]["kind"] == "deadlock"
    assert live["problems"] == core["problems"] == []
    assert killed["crash"]["fault"]["kind"] == "sent"
    assert left_out(killed) == {"variables"}


@pytest.mark.parametrize("by", ["build id", "debug link"])
def test_debug_file_in_the_sysroot_is_used(by: str, tmp_path: Path) -> None:
    """An image of a container has its own debug files, under its own paths."""
    root, whole, program, debug = (tmp_path / name for name in ("root", "whole", "abba", "abba.debug"))
    shutil.copy(samples.build("abba"), whole)
    subprocess.run(["objcopy", "--only-keep-debug", whole, debug], check=True)
    subprocess.run(["objcopy", "--strip-all", f"--add-gnu-debuglink={debug}", whole, program], check=True)
    with samples.running([program, "mutex"], tmp_path) as sample:
        maps = Path(f"/proc/{sample.pid}/maps").read_text().split()
        core = cores.kernel_core(sample)
    for path in {word for word in maps if word.startswith("/")}:
        place = root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, place)
    contents = debug.read_bytes()
    debug.unlink()

    def has_lines() -> bool:
        document = run("report", core, "--json", "--no-gdb", "--sysroot", root).document()
        return any(frame["line"] and frame["file"].endswith("abba.c")
                   for thread in document["threads"] for frame in thread["stack"])

    assert not has_lines()
    build_id = build_id_of(program)
    assert build_id is not None
    place = (root / f"usr/lib/debug/.build-id/{build_id[:2]}/{build_id[2:]}.debug" if by == "build id"
             else root / f"usr/lib/debug{tmp_path}/abba.debug")
    place.parent.mkdir(parents=True)
    place.write_bytes(contents)
    assert has_lines()


@pytest.mark.parametrize("story", CRASHES)
def test_crash_is_that_of_gdb(story: str, tmp_path: Path) -> None:
    """Without symbols, GDB knows nothing of it that we do not."""
    with crashes.crash(story, CRASHES[story], "kernel-core", tmp_path / "crash", stripped=True) as crash:
        both = read_both(story, Path(shutil.copy(crash.gdb_args[-1], tmp_path / "core")))
    assert (both.direct["crash"]["fault"]["kind"] == "sent") == story.startswith("killed")
    assert {"instructions", "frames"}.isdisjoint(both.left_out)
    assert unexplained(story, both.by_gdb, both.direct, both.left_out) == []


def test_variables_of_native_functions_come_by_gdb(tmp_path: Path) -> None:
    with crashes.crash("null-read", "3.11", "kernel-core", tmp_path / "crash") as crash:
        core = Path(shutil.copy(crash.gdb_args[-1], tmp_path / "core"))
    by_gdb, without = launcher.launch("report", core, "--json"), run("report", core, "--json")
    assert (by_gdb.status, without.status) == (1, 1)
    crashed, partly = by_gdb.document()["crash"], without.document()["crash"]
    assert (crashed["fault"], crashed["thread"]) == (partly["fault"], partly["thread"])
    native, directly = ([frame for frame in stack["stack"] if frame["language"] == "native"]
                        for stack in (crashed, partly))
    assert any(frame["line"] and frame["locals"] for frame in native)
    assert any(frame["line"] for frame in directly)
    assert not any(frame["locals"] for frame in directly)
    text = run("report", core).stdout
    assert text.count("\nLeft out: variables of native functions (shown by `gdbext report CORE --gdb gdb` and "
                      "`gdbext attach CORE`)") == 1


def test_triage_without_gdb_groups_cores(hang: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        shutil.copy(hang, tmp_path / name)
    (tmp_path / "cut").write_bytes(hang.read_bytes()[:5000])
    done = run("triage", tmp_path, "--no-gdb", "--json")
    document = json.loads(done.stdout)
    assert [made["count"] for made in document["classes"]] == [2]
    assert [Path(failure["target"]).name for failure in document["failures"]] == ["cut"]


def test_process_needs_no_gdb(path_without_gdb: str, tmp_path: Path) -> None:
    with samples.abba("mutex", tmp_path, stripped=True) as sample:
        document = run("report", str(sample.pid), "--json", PATH=path_without_gdb, GDBEXT_GDB="").document()
    assert (document["verdict"]["kind"], document["target"]["paused"]) == ("deadlock", 0)
