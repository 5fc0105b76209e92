"""`gdbext dump`: the format of ``py-spy dump``, compared with py-spy itself where GDBEXT_LONG is set."""

from __future__ import annotations

import functools
import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from gdbext.inferior.proc.status import process_tree
from tests.support import combinations, gdb_session, interpreters, packages, samples
from tests.support.hangs import running
from tests.support.launcher import environment, launch
from tests.support.samples import SOURCES

NAME = "py-spy"
#: Programs of tests/samples/hangs.py whose threads have come to rest, and so are the same for both.
VARIANTS = ("deadlock", "orphaned", "event_loop", "behind", "children", "own_loop", "pool", "full_queue",
            "unknown", "idle")


def processes(text: str) -> list[str]:
    """The processes of a text without their verdicts; py-spy has those with one parent in any order."""
    found = [re.sub(r"\n\n[A-Z ]+: .*$", "", part.strip("\n")) for part in text.split("-" * 80)]
    return [*found[:1], *sorted(found[1:])]


def test_text_has_the_format_of_py_spy() -> None:
    with running("deadlock") as pid:
        made = launch("dump", "-p", str(pid), gdb=None)
    assert made.status == 0
    lines = made.stdout.split("\n")
    assert lines[0] == f"Process {pid}: {sys.executable} {SOURCES}/hangs.py deadlock"
    assert re.fullmatch(r"Python v3\.\d+\.\d+ \(/.+\)", lines[1])
    assert lines[2] == ""
    assert lines[3] == f'Thread {pid} (idle): "MainThread"'
    assert re.search(r"^    \w[\w.<>]* \(hangs\.py:\d+\)$", made.stdout, re.MULTILINE)
    assert re.search(r"^    Thread\.run \(threading\.py:\d+\)$", made.stdout, re.MULTILINE)
    assert lines[-2].startswith("DEADLOCK: 2 threads wait for each other")


def test_json_has_the_members_of_py_spy_and_what_it_does_not_know() -> None:
    with running("deadlock") as pid:
        threads: list[dict[str, Any]] = json.loads(
            launch("dump", "--pid", str(pid), "--json", "--native", "--locals", gdb=None).stdout)
    assert [thread["os_thread_id"] for thread in threads][-1] == pid  # the newest first
    for thread in threads:
        assert thread["pid"] == pid
        assert isinstance(thread["thread_id"], int)
        assert (thread["active"], thread["owns_gil"]) == (False, False)
        assert thread["gdbext"]["verdict"] == "deadlock"
        names = {"name", "filename", "module", "short_filename", "line", "locals", "is_entry", "is_shim_entry"}
        assert all(set(frame) == names for frame in thread["frames"])
    holding = [thread["gdbext"]["holds"] for thread in threads if thread["gdbext"]["in_verdict"]]
    assert len(holding) == 2
    assert all(holds[0].startswith("holds threading.Lock ") for holds in holding)
    frames = [frame for thread in threads for frame in thread["frames"]]
    assert any(frame["module"] is not None for frame in frames)
    assert any(frame["locals"] for frame in frames)


def test_family_is_separated_and_names_parents() -> None:
    with running("children") as pid:
        made = launch("dump", "-p", str(pid), "-s", gdb=None)
        family = [member for member, _ in process_tree(pid)]
    assert made.stdout.count(f"\n\n{'-' * 80}\nProcess ") == made.stdout.count("Process ") // 2
    assert made.stdout.count(f"Parent Process {pid}: ") >= 1
    assert len(family) > 1


def test_link_named_py_spy_serves_its_callers(tmp_path: Path) -> None:
    link = tmp_path / "py-spy"
    link.write_text(f"#!{sys.executable}\nfrom gdbext.launcher.start import main\nraise SystemExit(main())\n")
    link.chmod(0o755)
    with running("idle") as pid:
        done = subprocess.run([link, "dump", "--pid", str(pid), "--nonblocking"], env=environment(), check=True,
                              capture_output=True, text=True)
    assert done.stdout.startswith(f"Process {pid}: ")
    assert "NOTHING WRONG" not in done.stdout


def test_core_has_the_same_stacks(tmp_path: Path) -> None:
    with running("deadlock") as pid:
        live = launch("dump", str(pid), gdb=None).stdout
        gdb_session.batch(["-p", str(pid)], [f"generate-core-file {tmp_path}/core"], load=False, symbols=False)
    core = launch("dump", "-c", tmp_path / "core", gdb=None).stdout
    assert core.split("\n")[3:] == live.split("\n")[3:]


@pytest.mark.parametrize("arguments", [("-p", "1", "-c", "x"), (), ("-c", "/dev/null", "-s")])
def test_one_target_is_needed(arguments: tuple[str, ...]) -> None:
    assert launch("dump", *arguments, gdb=None).status == 2


def test_program_without_python_is_refused() -> None:
    with subprocess.Popen(["sleep", "100"]) as process:
        try:
            time.sleep(0.3)
            made = launch("dump", "-p", str(process.pid), gdb=None)
        finally:
            process.kill()
    assert made.status == 3
    assert "has no Python; `gdbext report" in made.stderr


# -- py-spy itself ---------------------------------------------------------------------------------------------------


@functools.cache
def py_spy() -> Path:
    folder = samples.cache_directory().parent / NAME
    failure = packages.install(folder, ["py-spy==0.4.3"], "--no-deps")
    if failure is not None:
        interpreters.do_without(NAME, f"py-spy cannot be installed: {failure}")
    return folder / "bin" / "py-spy"


@pytest.mark.skipif(not combinations.LONG, reason="needs py-spy; GDBEXT_LONG is not set")
@pytest.mark.parametrize("variant", VARIANTS)
def test_text_and_json_are_those_of_py_spy(variant: str) -> None:
    with running(variant) as pid:
        for options in ((), ("--full-filenames",), ("--subprocesses",), ("--nonblocking",)):
            theirs = subprocess.run([py_spy(), "dump", "-p", str(pid), *options], capture_output=True, text=True,
                                    check=True).stdout
            ours = launch("dump", "-p", str(pid), *options, gdb=None).stdout
            assert processes(ours) == processes(theirs), options
        theirs = subprocess.run([py_spy(), "dump", "-p", str(pid), "--json"], capture_output=True, text=True,
                                check=True).stdout
        ours = launch("dump", "-p", str(pid), "--json", gdb=None).stdout
    unknown = {"is_entry": None, "is_shim_entry": None}
    assert [{name: value for name, value in thread.items() if name != "gdbext"} for thread in json.loads(ours)] == [
        {**thread, "frames": [{**frame, **unknown} for frame in thread["frames"]]} for thread in json.loads(theirs)]
