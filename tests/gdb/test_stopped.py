"""Processes that a signal, a tracer or the freezer of cgroups keeps from running, and those that wait for them."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import gdb_session, samples
from tests.support.launcher import Ran, command, launch, launch_by
from tests.support.samples import thread_state, wait_until

#: A program that computes, and one that waits for input.
COMPUTING, READING = "while True: pass", "input()"
#: Starts a child that computes, writes its PID, and waits for it.
PARENT = "import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', 'while True: pass']); " \
         "print(p.pid, flush=True); p.wait()"
#: With GDB and without it.
READERS = [pytest.param((), id="gdb"), pytest.param(("--no-gdb",), id="direct")]


@contextlib.contextmanager
def running(code: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen([sys.executable, "-u", "-c", f"print('ready')\n{code}"], stdout=subprocess.PIPE,
                          stdin=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()


def stop(pid: int) -> None:
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: thread_state(pid) == "T", f"process {pid} to stop")


def report(pid: int, *options: str) -> Ran:
    """The report with GDB, or with an option without it; afterwards the process is as it was before."""
    before = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    ran = launch_by(command("report", str(pid), *options, gdb=None if "--no-gdb" in options else ""))
    assert Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == before
    return ran


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("code", [COMPUTING, READING])
def test_process_that_a_signal_has_stopped(code: str, reader: tuple[str, ...]) -> None:
    with running(code) as process:
        stop(process.pid)
        ran = report(process.pid, *reader)
        document = report(process.pid, "--json", *reader).document()
    assert ran.status == 5
    assert "\nSTOPPED: by SIGSTOP.\n" in ran.stdout
    assert f"\nNext: kill -CONT {process.pid}\n" in ran.stdout
    assert not re.search(r"COMPUTING|NOTHING WRONG| runs\b", ran.stdout)
    assert document["target"]["stopped"] == {"by": "signal", "name": "SIGSTOP", "pid": None}
    assert (document["verdict"]["kind"], document["verdict"]["ends_by_itself"]) == ("stopped", None)


@pytest.mark.parametrize("reader", READERS)
def test_deadlock_of_a_stopped_process_is_the_verdict_and_the_stop_is_said(reader: tuple[str, ...],
                                                                          tmp_path: Path) -> None:
    with samples.abba("rwlock", tmp_path) as sample:
        stop(sample.pid)
        ran = report(sample.pid, *reader, "--html", str(tmp_path / "page.html"))
        os.kill(sample.pid, signal.SIGCONT)
    said = f": kill -CONT {sample.pid}."
    assert ran.status == 1
    assert "\nDEADLOCK: " in ran.stdout
    assert f"The process is stopped, too: by SIGSTOP{said}" in ran.stdout
    assert f"The process is stopped, too: by <bdi>SIGSTOP</bdi>{said}" in (tmp_path / "page.html").read_text()


def test_background_job_that_reads_its_terminal() -> None:
    """A child of the leader of a session, in a process group that is not the terminal's."""
    code = ("import os, sys; r, w = os.pipe(); child = os.fork()\n"
            "if not child: os.setpgid(0, 0); os.read(0, 1)\n"
            "print(child, flush=True); os.waitpid(child, 0)")
    pid, terminal = pty.fork()
    if not pid:
        os.execv(sys.executable, [sys.executable, "-c", code])
    try:
        child = int(os.read(terminal, 100))
        wait_until(lambda: thread_state(child) == "T", "the job to stop")
        ran = report(child, "--no-gdb")
        tree = launch("report", "--children", str(pid))
        os.kill(child, signal.SIGKILL)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(terminal)
    assert ran.status == 5
    assert "STOPPED: by SIGTTIN, since it read from its terminal in the background; `fg`" in ran.stdout
    assert "Next:" not in ran.stdout
    assert "STOPPED: by SIGTTIN" in tree.stdout


def test_tree_and_triage_begin_with_the_stopped_child_that_its_parent_waits_for() -> None:
    with running(PARENT) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        try:
            wait_until(lambda: thread_state(process.pid) == "S", "the parent to wait")
            stop(child)
            tree = launch("report", "--children", str(process.pid), gdb="")
            triage = launch("triage", str(process.pid), str(child), gdb="")
        finally:
            os.kill(child, signal.SIGKILL)
    assert tree.status == triage.status == 5
    _, first, second, *_ = tree.stdout.splitlines()
    assert re.match(rf' +process {child} "\S+": STOPPED: by SIGSTOP', first)
    assert re.match(rf' +process {process.pid} "\S+": WAITS FOR CHILD PROCESSES', second)
    assert re.search(rf"process {process.pid} .* waits for the end of process {child}", tree.stdout)
    assert "1 stopped" in triage.stdout
    assert "\n1. 1 x stopped: by SIGSTOP; " in triage.stdout


def test_process_that_another_debugger_has_stopped() -> None:
    with running(COMPUTING) as process:
        gdb = subprocess.Popen([gdb_session.executable(), "-nx", "-q", "-p", str(process.pid)], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        try:
            assert gdb.stdin is not None
            assert gdb.stdout is not None
            gdb.stdin.write(b"echo at-prompt\\n\n")
            gdb.stdin.flush()
            while b"at-prompt" not in gdb.stdout.readline():
                pass
            ran = report(process.pid)
            document = report(process.pid, "--json").document()
            attached = launch("attach", str(process.pid))
        finally:
            gdb.communicate(b"detach\nquit\n", timeout=120)
    by = f'process {gdb.pid} "gdb" traces the process and has stopped it'
    assert ran.status == 5
    assert f"\nSTOPPED: {by}.\n" in ran.stdout
    assert f"GDB was not used: {by}\n" in ran.stderr
    assert "Next:" not in ran.stdout
    assert document["target"]["stopped"] == {"by": "tracer", "name": "gdb", "pid": gdb.pid}
    assert attached.status == 3
    assert f"cannot attach to process {process.pid}: {by}; " in attached.stderr


@contextlib.contextmanager
def frozen(pid: int, version: int) -> Iterator[Path]:
    """Freeze a process in a cgroup of its own."""
    pattern = r" (\S+) \S+ - cgroup2 " if version == 2 else r" (\S+) \S+ - cgroup \S+ \S*\bfreezer\b"
    match = re.search(pattern, Path("/proc/self/mountinfo").read_text())
    if match is None or not os.access(match[1], os.W_OK):
        pytest.skip(f"needs to write to the freezer of cgroups of version {version}")
    line = re.search(r"^0::(.*)$" if version == 2 else r"^\d+:freezer:(.*)$", Path("/proc/self/cgroup").read_text(),
                     re.MULTILINE)
    assert line is not None
    before = Path(match[1] + line[1])
    folder = before / f"gdbext-test-{pid}"
    control, on, off = ("cgroup.freeze", "1", "0") if version == 2 else ("freezer.state", "FROZEN", "THAWED")
    try:
        folder.mkdir()
    except OSError:
        pytest.skip("cannot make a cgroup")
    try:
        (folder / "cgroup.procs").write_text(str(pid))
        (folder / control).write_text(on)
        events = folder / ("cgroup.events" if version == 2 else control)
        wait_until(lambda: ("frozen 1" if version == 2 else on) in events.read_text(), "the cgroup to freeze")
        yield folder / control
    finally:
        (folder / control).write_text(off)
        (before / "cgroup.procs").write_text(str(pid))
        folder.rmdir()


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("version", [1, 2])
def test_process_in_a_frozen_cgroup(version: int, reader: tuple[str, ...]) -> None:
    with running(COMPUTING) as process, frozen(process.pid, version) as control:
        ran = report(process.pid, *reader)
        assert ran.status == 5
        assert f"\nSTOPPED: its cgroup {control.parent} is frozen.\n" in ran.stdout
        assert f"\nNext: echo {'0' if version == 2 else 'THAWED'} > {control}\n" in ran.stdout


def test_process_with_a_thread_that_no_debugger_can_stop_is_read_without_gdb(tmp_path: Path) -> None:
    """GDB would keep the other threads stopped until the child of the first one calls execve."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    program = samples.compiled("vfork", "vfork.c", ("-O1", "-Wall", "-Wextra"), strip=False)
    with subprocess.Popen([program, "vfork", fifo]) as process:
        try:
            wait_until(lambda: thread_state(process.pid) == "D", "the parent to wait")
            ran = report(process.pid, "--max-pause", "2", "--alone")
        finally:
            with open(fifo, "wb"):  # the child goes on
                pass
            assert process.wait(60) == 0
    assert ran.status == 5
    assert re.search(rf"GDB was not used: thread {process.pid} is in an uninterruptible sleep in the kernel"
                     r"( \(\w+\))?, so no debugger can stop it\n", ran.stderr)
    assert "was not paused" in ran.stderr
    assert "WAITS FOR CHILD PROCESSES" in ran.stdout


def test_process_that_gdb_cannot_attach_to_in_time_is_one_line() -> None:
    """GDB reads the list of its JIT interface while it attaches, and looks for no signal meanwhile."""
    program = samples.compiled("jit_list", "jit_list.c", ("-O1", "-Wall", "-Wextra"), strip=False)
    with subprocess.Popen([program], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            wait_until(lambda: thread_state(process.pid) == "S", "the program to wait")
            ran = report(process.pid, "--max-pause", "2")
            assert process.poll() is None
            wait_until(lambda: thread_state(process.pid) == "S", "the program to wait again")
            directly = report(process.pid, "--no-gdb")
        finally:
            process.kill()
    assert directly.status == 0
    assert (ran.status, ran.stdout) == (3, "")
    why = f"GDB did not attach to process {process.pid} within 2 s; see it without GDB: leave out --gdb"
    assert f"gdbext report: {why}\n" in ran.stderr
    paused = re.search(r"was paused for ([0-9.]+) s", ran.stderr)
    assert paused is not None
    assert 2 <= float(paused[1]) < 6
