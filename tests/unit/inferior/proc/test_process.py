"""One process, from a fake directory tree and from this machine."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gdbext.inferior.proc import process
from gdbext.inferior.proc.descriptors import Descriptor
from gdbext.inferior.proc.process import EndedChild, Proc
from gdbext.inferior.proc.sleeper import Sleeper
from tests.support.fake_proc import FakeProc


@pytest.fixture
def fake(tmp_path: Path) -> FakeProc:
    return FakeProc(tmp_path)


def test_children(fake: FakeProc) -> None:
    fake.children({205: "a) S 7 1 (b", 201: "sh"})
    fake.process(300, "other", parent=1)
    proc = fake.proc()
    assert proc.children() == [201, 205]
    assert proc.name(205) == "a) S 7 1 (b"
    assert proc.child(201) == 201


@pytest.mark.parametrize(("state", "threads", "code", "ended"), [
    ("Z", 1, 9, EndedChild(201, signal=9)), ("Z", 1, 0x8B, EndedChild(201, signal=11)),
    ("Z", 1, 3 << 8, EndedChild(201, status=3)), ("Z", 1, 0, EndedChild(201)), ("Z", 2, 9, None), ("S", 1, 0, None)])
def test_ended_children_are_zombies_without_other_threads(fake: FakeProc, state: str, threads: int, code: int,
                                                          ended: EndedChild | None) -> None:
    fake.children({201: "sh"})
    fields = [state, "100", *["0"] * 15, str(threads), *["0"] * 31, str(code)]
    fake.write("201/stat", f"201 (sh) {' '.join(fields)}\n")
    assert list(fake.proc().ended_children()) == ([ended] if ended is not None else [])


def test_ended_child_of_a_real_process() -> None:
    child = subprocess.Popen([sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert EndedChild(child.pid, signal=9) in Proc(os.getpid(), seconds=60).ended_children()
    child.wait()


def test_generation_of_relatives_and_of_others(fake: FakeProc) -> None:
    fake.children({201: "sh"})
    fake.process(202, "sleep", parent=201)
    fake.process(203, "other")
    proc = fake.proc()
    assert [proc.generation(pid) for pid in (201, 202, 203, 100, 1, 999)] == [1, 2, None, None, -1, None]


def test_child_in_a_pid_namespace(tmp_path: Path) -> None:
    fake = FakeProc(tmp_path)
    fake.write("100/status", "Name:\tserver\nNSpid:\t100\t1\n")
    fake.process(201, "sh", 100, [201, 2])
    proc = fake.proc()
    assert proc.child(2) == 201
    assert proc.child(201) is None


def test_child_when_kernel_lacks_nspid(fake: FakeProc) -> None:
    fake.write("100/status", "Name:\tserver\n")
    assert fake.proc().child(201) == 201


def test_clocks(fake: FakeProc) -> None:
    proc = fake.proc()
    now = proc.now(time.CLOCK_MONOTONIC)
    assert now is not None
    assert abs(now - time.clock_gettime(time.CLOCK_MONOTONIC)) < 60
    assert proc.now(time.CLOCK_PROCESS_CPUTIME_ID) is None
    assert proc.now(-1) is None
    os.unlink(fake.root / "100" / "ns" / "time")
    os.symlink("time:[5]", fake.root / "100" / "ns" / "time")
    assert fake.proc().now(time.CLOCK_MONOTONIC) is None
    assert fake.proc().now(time.CLOCK_REALTIME) is not None


def test_proc_when_process_does_not_exist_is_empty(tmp_path: Path) -> None:
    proc = Proc(5, str(tmp_path / "nothing"))
    descriptors, sockets = proc.descriptors, proc.sockets
    assert (descriptors.link(0), descriptors.info(Descriptor(5, 0)), descriptors.file(0)) == (None, None, None)
    assert (sockets.get(1), sockets.other_end(1), sockets.listener("TCP", "127.0.0.1:80")) == (None, None, None)
    assert (proc.name(5), list(proc.children()), list(descriptors.having("pipe:[1]"))) == (None, [], [])


def test_auxiliary_vector() -> None:
    found = Proc(os.getpid()).auxiliary()
    assert found[6] == os.sysconf("SC_PAGE_SIZE")
    assert Proc(1 << 30).auxiliary() == {}


@pytest.mark.parametrize(("root", "path", "expected"), [
    ("/", "/usr/lib/libc.so.6", "/usr/lib/libc.so.6"), (None, "/usr/lib/libc.so.6", "/usr/lib/libc.so.6"),
    ("/srv/tree", "/srv/tree/usr/lib/libc.so.6", "/usr/lib/libc.so.6"), ("/srv/tree", "/srv/tree2/x", "/srv/tree2/x"),
    ("/srv/tree", "/usr/lib/libc.so.6", "/usr/lib/libc.so.6")])
def test_mapped_file_is_opened_in_the_root_of_the_process(fake: FakeProc, root: str | None, path: str,
                                                          expected: str) -> None:
    if root is not None:
        os.symlink(root, fake.root / "100" / "root")
    assert fake.proc().mapped_file(path) == f"{fake.root}/100/root{expected}"


@pytest.mark.parametrize(("seconds", "found"), [(3600.0, True), (0.0, False)])
def test_sleeper_has_not_run_since_the_process_was_read(fake: FakeProc, monkeypatch: pytest.MonkeyPatch,
                                                        seconds: float, found: bool) -> None:
    sleepers = {201: Sleeper(201, 0, seconds, "pipe:[7]", None)}
    monkeypatch.setattr(process, "read_sleeper", lambda pid, root: sleepers.get(pid))
    assert fake.proc().sleeper(201) == (sleepers[201] if found else None)
    assert fake.proc().sleeper(202) is None
