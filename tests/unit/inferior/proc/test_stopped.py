"""What keeps a process from running, from a fake /proc and from processes of this machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gdbext.inferior.proc.status import tracer_of
from gdbext.inferior.proc.stopped import read_stopped
from gdbext.model import Stopped
from tests.support.fake_proc import FakeProc
from tests.support.samples import wait_until


class Fake(FakeProc):
    """A process with threads in given states, and file systems of cgroups."""

    def thread(self, tid: int, state: str, *, cgroup: str = "0::/\n", function: str = "0") -> None:
        folder = f"{self.pid}/task/{tid}"
        self.write(f"{folder}/stat", f"{tid} (a) b) {state} 1 1 1 0 -1\n")
        self.write(f"{folder}/status", "Name:\ta\nvoluntary_ctxt_switches:\t5\n")
        self.write(f"{folder}/cgroup", cgroup)
        self.write(f"{folder}/wchan", function)

    def signal(self, number: int) -> None:
        self.write(f"{self.pid}/stat", f"{self.pid} (a) b) T {' '.join(['0'] * 48)} {number}\n")

    def cgroups(self) -> Path:
        version_1, version_2 = self.root / "cgroups" / "free zer", self.root / "cgroups" / "unified"
        escaped = str(version_1).replace(" ", "\\040")
        self.write("self/mountinfo",
                   f"30 1 0:26 / {escaped} rw - cgroup cgroup rw,freezer\n31 1 0:27 / /none rw - cgroup cgroup rw,cpu\n"
                   f"32 1 0:28 / {version_2} rw - cgroup2 cgroup2 rw\n")
        for folder, file, frozen, own in ((version_1, "freezer.state", "FROZEN\n", "freezer.self_freezing"),
                                          (version_2, "cgroup.events", "populated 1\nfrozen 1\n", "cgroup.freeze")):
            for name, is_own in (("", "0"), ("paused", "1"), ("paused/job", "0")):
                self.write(str((folder / name / own).relative_to(self.root)), f"{is_own}\n")
                self.write(str((folder / name / file).relative_to(self.root)), frozen if name else "populated 1\n")
        return self.root / "cgroups"

    def read(self) -> Stopped | None:
        return read_stopped(self.pid, str(self.root), 0)


@pytest.fixture
def fake(tmp_path: Path) -> Fake:
    return Fake(tmp_path)


@pytest.mark.parametrize("states", ["", "R", "S", "D", "SR", "TR", "TS", "tS", "I", "Z"])
def test_read_stopped_of_a_process_with_a_thread_that_is_not_stopped_is_none(states: str, fake: Fake) -> None:
    for tid, state in enumerate(states, 100):
        fake.thread(tid, state)
    assert fake.read() is None


@pytest.mark.parametrize(("number", "name"), [(19, "SIGSTOP"), (20, "SIGTSTP"), (21, "SIGTTIN"), (0, None), (99, None)])
def test_read_stopped_names_the_signal(number: int, name: str | None, fake: Fake) -> None:
    for tid, state in enumerate("TTZ", 100):
        fake.thread(tid, state)
    fake.signal(number)
    assert fake.read() == Stopped("signal", name)


def test_read_stopped_names_the_tracer(fake: Fake) -> None:
    fake.process(7, "gdb")
    fake.thread(100, "t")
    assert fake.read() == Stopped("tracer")
    fake.write("100/status", "Name:\tTracerPid:\t9\nTracerPid:\t7\n")
    assert fake.read() == Stopped("tracer", "gdb", 7)
    assert tracer_of(100, str(fake.root)) == 7
    assert tracer_of(8, str(fake.root)) is None


@pytest.mark.parametrize("place", ["/paused", "/paused/job"])
def test_read_stopped_names_the_file_that_froze_the_cgroup(place: str, fake: Fake) -> None:
    mounted = fake.cgroups()
    fake.thread(100, "D", cgroup=f"7:cpu:/\n6:freezer:{place}\n0::/\n")
    assert fake.read() == Stopped("cgroup", f"{mounted}/free zer/paused/freezer.state")
    fake.thread(100, "S", cgroup=f"6:freezer:/\n0::{place}\n")
    assert fake.read() == Stopped("cgroup", f"{mounted}/unified/paused/cgroup.freeze")
    fake.thread(101, "S", cgroup="6:freezer:/\n0::/\n")
    assert fake.read() is None


def test_read_stopped_without_a_file_system_of_cgroups_finds_the_freezer_by_the_wait_channel(fake: Fake) -> None:
    fake.thread(100, "D", cgroup="6:freezer:/../job\n", function="__refrigerator")
    assert fake.read() == Stopped("cgroup")
    fake.thread(101, "D", function="nfs_wait")
    assert fake.read() is None


@pytest.fixture
def sleeping() -> Iterator[subprocess.Popen[bytes]]:
    # SIGTSTP stops no process of an orphaned process group, such as that of tests that run without a shell
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], preexec_fn=os.setpgrp) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGTSTP])
def test_read_stopped_of_a_process_that_a_signal_has_stopped(number: signal.Signals,
                                                             sleeping: subprocess.Popen[bytes]) -> None:
    assert read_stopped(sleeping.pid) is None
    sleeping.send_signal(number)
    os.waitpid(sleeping.pid, os.WUNTRACED)
    found = wait_until(lambda: read_stopped(sleeping.pid), "the process to stop")
    # some kernels do not say which signal
    assert found in (Stopped("signal", number.name), Stopped("signal"))
