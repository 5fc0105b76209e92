"""The verdict on real programs that hang as programs do, and on some that do not: process and core."""

from __future__ import annotations

import html
import json
import os
import re
import signal
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from gdbext.inferior.proc.status import process_tree
from tests.support import gdb_session, interpreters
from tests.support.hangs import is_still, running
from tests.support.launcher import launch
from tests.support.samples import wait_until


class Expected(NamedTuple):
    """The verdict's kind, the exit status of `gdbext report`, and the beginning of the verdict's line.

    `ends` is whether the program's first thread runs or sleeps for a time.
    """

    kind: str
    status: int
    line: str
    ends: bool = False


HANGS = {
    "deadlock": Expected("deadlock", 1, r"DEADLOCK: 2 threads wait for each other; 1 more is stuck behind them\."),
    "orphaned": Expected("orphaned-lock", 1, r"LOCK WITHOUT OWNER: 1 thread waits for an owner that is gone \("),
    "standstill": Expected("standstill", 1, (
        r"STANDSTILL: all 101 threads wait for what only the others could do; thread ")),
    "event_loop": Expected("event-loop-blocked", 5, (
        r'EVENT LOOP BLOCKED: task ".*" 0x[0-9a-f]+ blocks its event loop, and 6 other tasks cannot run: thread 1 ')),
    "behind": Expected("blocked-behind", 5, r'BLOCKED: 1 thread waits behind thread 2 "fetcher", which '),
    "child": Expected("children", 5, r'WAITS FOR CHILD PROCESSES: thread 1 "MainThread" waits for '),
    "children": Expected("children", 5, r'WAITS FOR CHILD PROCESSES: thread 1 "MainThread" waits for '),
    "killed_child": Expected("standstill", 1, r'STANDSTILL: thread 1 "MainThread" waits to read from fd \d+'),
    "own_loop": Expected("standstill", 1, (
        r'STANDSTILL: task "Task-1" 0x[0-9a-f]+ waits for asyncio\.gather; all 3 threads wait for what only the ')),
    "sleeping_holder": Expected("blocked-behind", 5, (
        r'BLOCKED: 2 threads wait behind thread 2 "reconnect", which holds threading\.Lock 0x[0-9a-f]+ lock and '),
        True),
    "sleeping_with_gil": Expected("blocked-behind", 5, (
        r'BLOCKED: 1 thread waits behind thread 1 "MainThread", which holds the GIL and sleeps '), True),
    "polling": Expected("polling", 5, (
        r'POLLING: thread 1 "MainThread" sleeps again and again, until the condition of a loop holds, with '
        r"marker = '/proc/self', in polling hangs\.py:\d+"), True),
    "pool": Expected("pool", 1, (
        r"POOL EXHAUSTED: all 2 workers of the pool wait for results, and no worker is left to make them; 2 calls are "
        r"queued behind them: int\.")),
    "unsent_call": Expected("deadlock", 1, r"DEADLOCK: 2 threads wait for each other\."),
    "slow_call": Expected("blocked-behind", 5, (
        r'BLOCKED: 1 thread waits behind thread \d+ "ThreadPoolExecutor-0_0", which has to make result 0x[0-9a-f]+ '
        r"result and waits to read ")),
    "full_queue": Expected("queue", 5, r'QUEUE BLOCKED: thread 1 "MainThread" waits for queue\.Queue .* is full'),
    "unknown": Expected("unknown", 3, r'UNKNOWN: thread 1 "MainThread" waits for threading\.Lock .*not known\.'),
    "computing": Expected("computing", 0, r'COMPUTING: no deadlock found; thread \d "worker" runs in work hangs\.py',
                          True),
    "idle": Expected("idle", 0, r"NOTHING WRONG FOUND: no deadlock found; all 2 threads wait for work, "),
    "sleeping": Expected("idle", 0, r"NOTHING WRONG FOUND: the only thread sleeps", True),
}
#: The verdict on cores where it differs: a core does not say which processes have the other end of a pipe.
OF_CORES = {
    "killed_child": Expected("blocked-behind", 5, r'BLOCKED: thread 1 "MainThread" waits to read from fd \d+'),
    "children": Expected("blocked-behind", 5, r'BLOCKED: thread 1 "MainThread" waits for result .*is pending'),
}


def check(expected: Expected, text: str, document: dict[str, Any], live: bool) -> None:
    header, empty, line = text.splitlines()[:3]
    # GDB's gcore leaves the arguments out
    start = r"gdbext: .*hangs\.py \w+(\.\.\.)?  PID \d+ on \S+, " if live else r"gdbext: \S+  core of PID \d+, "
    assert re.match(start, header), header
    assert "CPython 3." in header
    assert re.search(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ", header), header
    assert empty == ""
    assert re.match(expected.line, line), line
    verdict = document["verdict"]
    assert verdict["kind"] == expected.kind
    assert line.startswith(f"{verdict['title']}: ")
    assert verdict["ends_by_itself"] is (True if expected.ends else False if expected.status == 1 else None)
    assert gdb_session.violations(document) == []


@pytest.mark.parametrize("variant", HANGS)
def test_verdict(variant: str, tmp_path: Path) -> None:
    expected = HANGS[variant]
    python, symbols = interpreters.use("3.12" if sorted(HANGS).index(variant) % 2 else "3.11-stripped")
    with running(variant, python) as pid:
        page = tmp_path / "page.html"
        ran = launch("report", str(pid), "--html", page)
        assert ran.status == expected.status, ran.stdout
        check(expected, ran.stdout, launch("report", str(pid), "--json").document(), live=True)
        assert re.search(r", paused \d+\.\d\d s\n", ran.stdout)
        assert ran.stdout.count("\nThreads:\n") == 1
        title = re.escape(expected.line.partition(":")[0])
        assert re.search(rf'<section class="block first (bad|doubt|good)"><h2>{title}</h2>', page.read_text())
        if expected.status == 5:
            assert '<section class="block first doubt">' in page.read_text()
        core = tmp_path / "core"
        commands = [f"gcore {core}", "py-deadlocks --json"]
        session = gdb_session.batch(["-p", str(pid)], commands, symbols=symbols)
        assert session.document(1)["verdict"]["kind"] == expected.kind
        expected = OF_CORES.get(variant, expected)
    of_core = launch("report", core, python)
    assert of_core.status == expected.status, of_core.stdout
    check(expected, of_core.stdout, launch("report", core, python, "--json").document(), live=False)


@pytest.mark.parametrize("version", ["3.8", "3.11-stripped", "3.14t"])
def test_call_that_a_worker_took_with_it(version: str) -> None:
    """GDB wakes each thread, so only a report without it knows that all have slept for a while."""
    python, _ = interpreters.use(version)
    with running("lost_call", python) as pid:
        ran = launch("report", str(pid), gdb=None)
        document = launch("report", str(pid), "--json", gdb=None).document()
    assert ran.status == 1, ran.stdout
    check(Expected("no-result", 1, (
        r"RESULT NEVER COMES: 1 thread waits for a result that nobody makes \(its call is lost: ")),
        ran.stdout, document, live=True)


def test_child_is_read_also_if_the_process_is_named_by_its_command_line() -> None:
    """A child fills the pipe of its errors, and the parent reads its output only."""
    child = "import sys; sys.stderr.write('x' * 300_000); sys.stderr.flush(); print()"
    name = f"only-the-parent-{os.getpid()}"
    parent = (f"import subprocess, sys; pipe = subprocess.PIPE\n"
              f"subprocess.Popen([sys.executable, '-c', {child!r}], stdout=pipe, stderr=pipe).stdout.read()")
    python, _ = interpreters.use("debian")
    with subprocess.Popen([python, "-c", parent, name], start_new_session=True) as process:
        try:
            wait_until(lambda: len(process_tree(process.pid)) == 2 and all(map(is_still, dict(
                process_tree(process.pid)))), "both to come to rest")
            ran = launch("report", "--name", name, gdb=None)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
    assert ran.status == 1
    assert ran.stdout.startswith("2 processes: 2 deadlocked with each other, ")


#: A process that serves one client, and never answers: its handler waits for a lock of its other thread.
_SERVER = """
import socket, sys, threading, time
lock, held = threading.Lock(), threading.Event()
def keeper():
    with lock:
        held.set()
        threading.Event().wait()
if sys.argv[1] == "tcp":
    listening = socket.create_server(("127.0.0.1", 0))
else:
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(sys.argv[2])
    listening.listen()
threading.Thread(target=keeper, name="keeper").start()
held.wait()
print(listening.getsockname()[1] if sys.argv[1] == "tcp" else 0, flush=True)
peer, _ = listening.accept()
with lock:
    peer.send(b"an answer")
"""
_CLIENT = """
import socket, sys
if sys.argv[1] == "tcp":
    peer = socket.create_connection(("127.0.0.1", int(sys.argv[3])))
else:
    peer = socket.socket(socket.AF_UNIX)
    peer.connect(sys.argv[2])
peer.recv(1)
"""


@pytest.mark.parametrize("kind", ["tcp", "unix"])
def test_process_that_owes_the_answer_is_read_too(kind: str, tmp_path: Path) -> None:
    """The server is no child of the client, and no ancestor."""
    python, _ = interpreters.use("debian")
    where = [kind, str(tmp_path / "socket")]
    with subprocess.Popen([python, "-c", _SERVER, *where], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        with subprocess.Popen([python, "-c", _CLIENT, *where, server.stdout.readline().strip()]) as client:
            try:
                wait_until(lambda: is_still(client.pid) and is_still(server.pid), "both to come to rest")
                ran = launch("report", str(client.pid), gdb=None)
                alone = launch("report", str(client.pid), "--alone", gdb=None)
                document = launch("report", str(client.pid), "--json", gdb=None)
            finally:
                client.kill()
                server.kill()
    assert (ran.status, alone.status, document.status) == (1, 5, 1)
    made = json.loads(document.stdout)
    assert (made["schema"], made["target"]["pid"]) == ("gdbext/1", client.pid)
    verdicts = {each["pid"]: each["verdict"] for each in made["processes"]["tree"]}
    assert verdicts[server.pid] == "standstill"
    lines = ran.stdout.splitlines()
    assert lines[0] == "2 processes: 0 deadlocked with each other, 1 with a deadlock of their own"
    assert lines[1].startswith(f'  process {server.pid} "')
    assert ": STANDSTILL: all 2 threads wait " in lines[1]
    assert f"; the other end is fd 4 of process {server.pid} " in lines[2]


#: A process at rest: it waits for signals. Its child waits for its own lock, or for work on a pipe.
_MASTER = """
import os, signal, sys, threading
reads, writes = os.pipe()
if not os.fork():
    os.close(writes)
    if sys.argv[1] == "hung":
        lock = threading.Lock()
        with lock, lock:
            pass
    while os.read(reads, 1):
        pass
    os._exit(0)
signal.sigwait({signal.SIGUSR1})
"""


@pytest.mark.parametrize(("how", "status"), [("hung", 1), ("idle", 0)])
def test_process_at_rest_is_judged_by_its_children(how: str, status: int) -> None:
    python, _ = interpreters.use("debian")
    with subprocess.Popen([python, "-c", _MASTER, how], start_new_session=True) as master:
        try:
            wait_until(lambda: len(process_tree(master.pid)) == 2 and all(map(is_still, dict(
                process_tree(master.pid)))), "both to come to rest")
            ran = launch("report", str(master.pid), gdb=None)
        finally:
            os.killpg(master.pid, signal.SIGKILL)
    assert ran.status == status
    assert ("DEADLOCK: a thread waits for itself" in ran.stdout) == bool(status)


def test_end_of_a_pipe_that_a_process_inherited() -> None:
    """A process waits for a reader, and the reader for a process that was forked while the pipe was open."""
    python, _ = interpreters.use("debian")
    program = """
import os, time
reads, writes = os.pipe()
reader = os.fork()
if not reader:
    os.close(writes)
    while os.read(reads, 1):
        pass
    os._exit(0)
if not os.fork():
    time.sleep(1000)
os.close(writes)
os.waitpid(reader, 0)
"""
    with subprocess.Popen([python, "-c", program], start_new_session=True) as process:
        try:
            wait_until(lambda: len(process_tree(process.pid)) == 3 and all(map(is_still, dict(
                process_tree(process.pid)))), "all to come to rest")
            _, reader, sleeper = sorted(dict(process_tree(process.pid)))
            ran = launch("report", str(process.pid), gdb=None)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
    assert ran.status == 5
    assert re.search(rf"process {reader} .* which has its other end in process {sleeper} \".*\" \(inherited at fork\)",
                     ran.stdout)


def test_children_are_the_next_step() -> None:
    python, _ = interpreters.use("3.12")
    with running("children", python) as pid:
        ran = launch("report", str(pid), "--alone")
        assert f"\nNext: gdbext report --children {pid}\n" in ran.stdout
        tree, unasked = launch("report", str(pid), "--children"), launch("report", str(pid))
    # the answer is in the children, so they are read without being asked for
    assert (unasked.status, unasked.stdout.splitlines()[0]) == (1, tree.stdout.splitlines()[0])
    lines = tree.stdout.splitlines()
    assert tree.status == 1
    assert lines[0] == "3 processes: 0 deadlocked with each other, 2 with a deadlock of their own"
    # the hung children come before their parent
    assert re.fullmatch(r'  process \d+ ".*": (STANDSTILL|LOCK WITHOUT OWNER): .*', lines[1])
    assert re.fullmatch(rf'  process {pid} ".*": WAITS FOR CHILD PROCESSES: thread 1 .*', lines[3])
    assert lines[5] == "Waits between processes:"
    listed = lines[lines.index("Processes:") + 1:]
    assert re.fullmatch(rf'  process {pid} ".*": WAITS FOR CHILD PROCESSES', listed[0])
    assert json.dumps(listed[1]).startswith('"    process ')


def test_killed_child_is_named_on_the_first_screen(tmp_path: Path) -> None:
    python, _ = interpreters.use("3.12")
    with running("killed_child", python) as pid:
        page = tmp_path / "page.html"
        ran = launch("report", str(pid), "--html", page)
    note = (r"Note: a child process has ended, and this process has not waited for it: "
            r'process \d+ "[^"]+" was killed by SIGKILL')
    assert re.search(rf"^{note}\.$", ran.stdout.partition("\nThreads:\n")[0], re.MULTILINE)
    assert len(re.findall(note, ran.stdout)) == 1
    (section,) = re.findall(r'<section class="block first .*?</section>', page.read_text(), re.DOTALL)
    assert re.search(note, html.unescape(re.sub("<[^>]*>", "", section)))


def test_standstill_of_many_threads_fits_two_screens() -> None:
    python, _ = interpreters.use("3.12")
    with running("standstill", python) as pid:
        text = launch("report", str(pid)).stdout
        without = launch("report", str(pid), "--stacks=none").stdout
    assert len(text.splitlines()) <= 60
    assert max(map(len, text.splitlines())) <= 200
    assert len(without.splitlines()) <= 40
    assert "#0" not in without


def test_own_code_stands_out() -> None:
    python, _ = interpreters.use("3.12")
    with running("child", python) as pid:
        text = launch("report", str(pid)).stdout
    verdict = text.partition("\nThreads:\n")[0]
    assert re.search(r"^ +at \S*hangs\.py:\d+ in child$", verdict, re.MULTILINE)
    assert re.search(r"^ +process\.wait\(\)$", verdict, re.MULTILINE)
    assert re.search(r"^ +\.\.\. subprocess \(\d frames\)$", verdict, re.MULTILINE)


def test_locks_of_one_name_are_told_apart() -> None:
    python, _ = interpreters.use("3.12")
    with running("deadlock", python) as pid:
        text = launch("report", str(pid)).stdout
    verdict = text.partition("\nThreads:\n")[0]
    assert "of Account 'alice'" in verdict
    assert "of Account 'bob'" in verdict
