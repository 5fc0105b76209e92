from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gdbext.inferior.proc import sleeper
from gdbext.inferior.proc.shared_memory import Word
from gdbext.inferior.proc.sleeper import Sleeper, read_sleeper, shared_word
from tests.support.samples import wait_until

PID, ADDRESS = 100, 0x7000_0000_0000
MAPS = f"{ADDRESS:x}-{ADDRESS + 0x1000:x} rw-s 00002000 00:1a 77 /dev/shm/mp-x (deleted)\n"


def add(root: Path, call: str, maps: str = MAPS) -> None:
    task = root / str(PID) / "task" / str(PID)
    task.mkdir(parents=True)
    (root / str(PID) / "fd").mkdir()
    (root / str(PID) / "fd" / "5").symlink_to("pipe:[7]")
    (root / str(PID) / "maps").write_text(maps)
    stat = f"{PID} (worker) S 90 " + " ".join(["0"] * 48) + "\n"
    for folder in (root / str(PID), task):
        (folder / "stat").write_text(stat)
    (task / "status").write_text("Name:\tworker\nState:\tS (sleeping)\nPPid:\t90\nvoluntary_ctxt_switches:\t3\n")
    (root / str(PID) / "status").write_text((task / "status").read_text())
    (task / "schedstat").write_text("1 1 7\n")
    (task / "syscall").write_text(call)
    (task / "comm").write_text("worker\n")


@pytest.fixture(autouse=True)
def slept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sleeper, "seconds_since_run", lambda pid, tids, root: dict.fromkeys(tids, 4.0))


def test_worker_that_reads_a_pipe(tmp_path: Path) -> None:
    add(tmp_path, "0 0x5 0x1000 0x4 0x0 0x0 0x0 0x7000 0x4000\n")
    assert read_sleeper(PID, str(tmp_path)) == Sleeper(PID, 0, 4.0, "pipe:[7]", None)


def test_worker_that_waits_for_a_shared_lock(tmp_path: Path) -> None:
    add(tmp_path, f"202 {ADDRESS + 8:#x} 0x189 0x0 0x0 0x0 0x0 0x7000 0x4000\n")
    assert read_sleeper(PID, str(tmp_path)) == Sleeper(PID, 202, 4.0, None, Word("00:1a", 77, 0x2008))
    assert shared_word(PID, ADDRESS, str(tmp_path)) == Word("00:1a", 77, 0x2000)
    assert shared_word(PID, ADDRESS + 0x1000, str(tmp_path)) is None


@pytest.mark.parametrize("call", ["running\n", "-1 0x7000 0x4000\n"])
def test_worker_that_may_run(tmp_path: Path, call: str) -> None:
    add(tmp_path, call)
    assert read_sleeper(PID, str(tmp_path)) is None


def test_process_that_does_not_exist(tmp_path: Path) -> None:
    assert read_sleeper(PID, str(tmp_path)) is None
    assert shared_word(PID, ADDRESS, str(tmp_path)) is None


@pytest.fixture
def child() -> Iterator[int]:
    with subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read(1)"], stdin=subprocess.PIPE) as process:
        yield process.pid
        process.kill()


def test_child_process(child: int) -> None:
    wait_until(lambda: (found := read_sleeper(child)) is not None
               and (found.link or "").startswith("pipe:"), "the child to read")
