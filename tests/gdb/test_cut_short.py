"""Calls that a pause cuts short: the kernel records before the pause that the thread sleeps in the call."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support import gdb_session, interpreters, samples
from tests.support.samples import wait_until

Json = dict[str, Any]

FLAGS = ("-O2", "-std=gnu11", "-Wall", "-Wextra", "-pthread")
NUMBERS = {"write": 1, "fifo": 1, "sendfile": 40, "splice": 275, "recvfrom": 45, "recvmsg": 47, "sendto": 44,
           "io_uring_enter": 426}
#: The calls whose results alone show that they were blocked: to a pipe or socket, and not of a named pipe.
CERTAIN = ("write", "sendto")
INTERRUPTED = {"code": "interrupted-by-the-pause", "arguments": {}}
#: Threads in the same calls as in tests/samples/cut_short.c, in Python.
PYTHON = """
import json, os, socket, threading

data = bytes(1 << 20)
pipe = os.pipe()[1]
os.mkfifo("fifo")
fifo = os.open("fifo", os.O_RDWR)
pairs = [socket.socketpair() for _ in range(3)]
pairs[2][0].send(b"a part")
calls = {"write": lambda: os.write(pipe, data), "fifo": lambda: os.write(fifo, data),
         "sendto": lambda: pairs[1][0].send(data), "recvfrom": lambda: pairs[2][1].recv(1 << 20, socket.MSG_WAITALL)}

def again(call):
    while call():
        pass

threads = {name: threading.Thread(target=again, args=[call], daemon=True) for name, call in calls.items()}
for thread in threads.values():
    thread.start()
print(json.dumps({name: thread.native_id for name, thread in threads.items()}), flush=True)
threading.Event().wait()
"""
PROGRAMS = ("debian", "3.12", "3.13t", "native")
#: Prints how many sleeping threads GDB's Python has kept.
KEPT = ("python import gdb; from gdbext.debugger.before_pause import before_pause; "
        "print(len(before_pause.read(gdb.selected_inferior()).asleep))")


class Program:
    """A running program whose threads are in calls, by the names of the calls."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        self.pid = process.pid
        self.tids: dict[str, int] = json.loads(process.stdout.readline())

    def call(self, name: str) -> str:
        return Path(f"/proc/{self.pid}/task/{self.tids[name]}/syscall").read_text()

    def wait_until_blocked(self) -> None:
        """Wait until each thread is in its call; skip the test if the kernel does not show the calls of threads."""
        try:
            Path("/proc/self/syscall").read_text()
        except OSError as error:
            pytest.skip(f"the kernel does not show the system calls of threads: {error}")
        wait_until(lambda: all(self.call(name).split()[0] == str(NUMBERS[name]) for name in self.tids),
                   "each thread to be blocked", seen=lambda: {name: self.call(name) for name in self.tids})

    def rows(self, document: Json) -> dict[str, Json]:
        """The rows of the threads, by the names of the calls."""
        rows = {row["lwp"]: row for row in document["threads"]}
        return {name: rows[tid] for name, tid in self.tids.items()}

    def report(self, status: int = 0) -> dict[str, Json]:
        """The rows of the threads in a report of the launcher, which has an exit status."""
        argv = [sys.executable, "-m", "gdbext", "report", "--json", "--gdb", gdb_session.executable(), str(self.pid)]
        done = subprocess.run(argv, cwd=interpreters.CHECKOUT, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=gdb_session.TIMEOUT, check=False)
        assert done.returncode == status, done.stderr
        document: Json = json.loads(done.stdout)
        assert gdb_session.violations(document) == []
        return self.rows(document)


@contextlib.contextmanager
def running(argv: Sequence[str | Path], directory: Path) -> Iterator[Program]:
    with subprocess.Popen(argv, stdout=subprocess.PIPE, cwd=directory) as process:
        try:
            yield Program(process)
        finally:
            process.kill()


def native() -> Path:
    return samples.compiled("cut-short", "cut_short.c", FLAGS, strip=True)


def is_recorded(row: Json) -> bool:
    return row["waits"] is not None and row["waits"]["evidence"] == "recorded"


@pytest.mark.parametrize("name", PROGRAMS)
def test_call_cut_short_is_blocked_as_recorded_before_the_pause(name: str, tmp_path: Path) -> None:
    argv: list[str | Path] = [native()] if name == "native" else [interpreters.use(name)[0], "-c", PYTHON]
    with running(argv, tmp_path) as program:
        program.wait_until_blocked()
        rows = program.report()
        assert len(rows) >= 4
        for call, row in rows.items():
            assert (row["status"], row["syscall"]) == ("blocked", "write" if call == "fifo" else call)
            assert (row["waits"]["evidence"], row["waits"]["why_code"]) == ("recorded", INTERRUPTED), call
            assert row["blocked_on"].startswith("fd "), call


def test_call_cut_short_in_interactive_gdb(tmp_path: Path) -> None:
    attach = "python import gdbext.debugger.attach; gdbext.debugger.attach.process({}, None, '')"
    with running([native()], tmp_path) as program:
        program.wait_until_blocked()
        session = gdb_session.batch([], [attach.format(program.pid), "py-threads-locks --json", KEPT,
                                         "set scheduler-locking on", "thread 2", "stepi", KEPT,
                                         "py-threads-locks --json"])
        rows = program.rows(session.document(1))
        assert {row["waits"]["why_code"]["code"] for row in rows.values()} == {"interrupted-by-the-pause"}
        assert [session.outputs[index] for index in (2, 6)] == [str(len(rows)), "0"]
        # what was recorded before the first pause says nothing about the second
        assert not any(map(is_recorded, program.rows(session.document(7)).values()))

    with running([native()], tmp_path) as program:
        program.wait_until_blocked()
        session = gdb_session.batch([], [attach.format(program.pid), KEPT, "detach", f"attach {program.pid}", KEPT])
        assert [session.outputs[index] for index in (1, 4)] == [str(len(program.tids)), "0"]


def test_call_cut_short_without_a_record_is_not_said_to_run(tmp_path: Path) -> None:
    """GDB attaches by itself, or the process was stopped already: nothing is recorded."""
    with running([native()], tmp_path) as program:
        program.wait_until_blocked()
        session = gdb_session.batch(["-p", str(program.pid)], ["py-threads-locks --json"])
        found = [program.rows(session.document())]
    with running([native()], tmp_path) as program:
        program.wait_until_blocked()
        os.kill(program.pid, signal.SIGSTOP)
        state = Path(f"/proc/{program.pid}/stat")
        wait_until(lambda: state.read_text().rpartition(")")[2].split()[0] == "T", "it is stopped")
        found.append(program.report(status=5))
    for rows in found:
        for call, row in rows.items():
            if call in CERTAIN:
                assert (row["status"], row["waits"]["evidence"]) == ("blocked", "derived")
            else:
                assert (row["status"], row["waits"]) == ("unknown", None), call


def test_call_that_returns_a_part_without_blocking_is_not_a_wait(tmp_path: Path) -> None:
    with running([native(), "busy"], tmp_path) as program:
        for _ in range(5):
            rows = program.report()
            assert [row["waits"] for row in rows.values()] == [None] * 2
            assert rows["write"]["status"] == "running"
