"""Waits in small programs: results of pools, interrupted writes, and work that no thread will provide."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import gdb_session, interpreters
from tests.support.samples import wait_until

COMMANDS = ("py-threads-locks --json", "py-threads-locks --stacks=none")
#: Each thread waits for the result that its name says, the main thread for that of `map`.
RESULTS = """
import concurrent.futures, multiprocessing, multiprocessing.pool, threading

def work(number):
    threading.Event().wait()

pool = multiprocessing.get_context("fork").Pool(1)  # other workers cannot import `work`, and end again and again
threads = multiprocessing.pool.ThreadPool(1)
executor = concurrent.futures.ThreadPoolExecutor(1)
for name, wait in {"apply": lambda: pool.apply_async(work, [1]).get(), "imap": lambda: next(pool.imap(work, [1, 2])),
                   "thread pool": lambda: threads.map(work, [1, 2]),
                   "executor": lambda: list(executor.map(work, [1, 2]))}.items():
    threading.Thread(target=wait, name=name, daemon=True).start()
print(flush=True)
pool.map(work, [1, 2])
"""
WAITERS = ("MainThread", "apply", "imap", "thread pool", "executor")


@contextlib.contextmanager
def running(python: Path, source: str) -> Iterator[int]:
    """Run a program that prints a line and then stays; end it and its children afterwards."""
    with subprocess.Popen([python, "-c", source], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == b"\n"
            yield process.pid
        finally:
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
            process.kill()  # first, because it would start other workers
            for child in children:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(child), signal.SIGKILL)


@pytest.mark.parametrize("name", [*interpreters.VERSIONS, *interpreters.FREE_THREADED_VERSIONS])
def test_wait_for_a_pool_result_is_not_an_event(name: str) -> None:
    python, symbols = interpreters.use(name)
    with running(python, RESULTS) as pid:
        sessions: list[gdb_session.Result] = []
        found: list[dict[str, str]] = []

        def states() -> dict[str, str]:
            sessions.append(gdb_session.batch(["-p", str(pid)], COMMANDS, symbols=symbols))
            assert sessions[-1].status == 0
            document = sessions[-1].document()
            locks = {lock["id"]: lock["state"] for lock in document["locks"]}
            found.append({thread["python_name"]: locks.get((thread["waits"] or {}).get("lock"), "none")
                          for thread in document["threads"] if thread["python_name"] in WAITERS})
            return found[-1]

        # until then they may wait for the GIL or for a lock of the pool
        wait_until(lambda: states() == dict.fromkeys(WAITERS, "result is pending"), "all to wait for their results",
                   seen=lambda: found[-1])
        waiting = [line for line in sessions[-1].outputs[1].partition("\nThreads:\n")[2].splitlines()
                   if "hread" in line.split("(")[0]]
        # the sentence of the verdict names the thread that has to make the first result
        assert "has to make result" in sessions[-1].outputs[1].partition("\n\n")[2].partition("\n")[0]
        places = [place for place, line in enumerate(waiting) if "waits for result" in line]
        assert len(places) == len(WAITERS)
        assert max(places) < min(place for place, line in enumerate(waiting) if "queue is empty" in line)


#: Each thread writes more than the other end can buffer.
WRITES = """
import os, socket, threading

def again(write):
    while True:  # the stop by a debugger cuts it short
        write()

pipe, vector = os.pipe()[1], os.pipe()[1]
near, far = socket.socketpair()
message, other = socket.socketpair()
DATA = bytes(1 << 23)
for name, write in {"write": lambda: os.write(pipe, DATA), "writev": lambda: os.writev(vector, [b"", DATA]),
                    "sendto": lambda: near.send(DATA), "sendmsg": lambda: message.sendmsg([DATA])}.items():
    threading.Thread(target=again, args=[write], name=name, daemon=True).start()
print(flush=True)
threading.Event().wait()
"""
CALLS = {"write": 1, "writev": 20, "sendto": 44, "sendmsg": 46}


def test_write_interrupted_by_attaching_is_blocked(tmp_path: Path) -> None:
    python, symbols = interpreters.use(interpreters.ANY)
    with running(python, WRITES) as pid:
        def all_sleep() -> bool:
            calls = [path.read_text().split()[0] for path in Path(f"/proc/{pid}/task").glob("*/syscall")]
            return {str(number) for number in CALLS.values()} <= set(calls)

        wait_until(all_sleep, "each thread to be blocked in its write")
        core = tmp_path / "core"
        session = gdb_session.batch(["-p", str(pid)], [*COMMANDS, f"gcore {core}"], symbols=symbols)
        for thread in session.document()["threads"]:
            if thread["python_name"] in CALLS:
                assert (thread["status"], thread["syscall"]) == ("blocked", thread["python_name"])
                assert thread["waits"]["evidence"] == "derived"
        assert session.outputs[1].count(" waits to write to fd ") == len(CALLS)

        session = gdb_session.batch([python, core], COMMANDS, symbols=symbols)
        for thread in session.document()["threads"]:
            if thread["python_name"] in CALLS:
                assert (thread["status"], thread["syscall"]) == ("unknown", thread["python_name"])
        assert " runs" not in session.outputs[1]

        wait_until(all_sleep, "each thread to be blocked again")
        session = gdb_session.batch(["-p", str(pid)], COMMANDS, symbols=symbols)
        for thread in session.document()["threads"]:
            if thread["python_name"] in CALLS:
                assert (thread["status"], thread["waits"]["evidence"]) == ("blocked", "recorded")


#: No thread calls task_done().
STANDSTILL = """
import queue, threading

jobs = queue.Queue()

def work():
    while True:
        jobs.get()

for number in range(100):
    threading.Thread(target=work, name="worker-%d" % number, daemon=True).start()
jobs.put("a job")
print(flush=True)
jobs.join()
"""


@pytest.mark.parametrize("name", ["3.9", "3.11", "3.13"])
def test_standstill_of_many_threads_is_short(name: str, tmp_path: Path) -> None:
    python, symbols = interpreters.use(name)
    commands = ("py-deadlocks", "py-threads-locks", "py-threads-locks --stacks=none", "py-threads-locks --stacks=top",
                "py-threads-locks --stacks=none --json")
    with running(python, STANDSTILL) as pid:
        sessions: list[gdb_session.Result] = []

        def is_still() -> bool:
            sessions.append(gdb_session.batch(["-p", str(pid)], commands, symbols=symbols))
            return "STANDSTILL: all 101 threads wait" in sessions[-1].outputs[0]

        wait_until(is_still, "all threads to wait", seen=lambda: sessions[-1].outputs[0])
        launcher = [sys.executable, "-m", "gdbext"]
        pages = [subprocess.run([*launcher, *arguments], capture_output=True, text=True, check=False,
                                cwd=interpreters.CHECKOUT).stdout
                 for arguments in (["report", str(pid)], ["triage", str(pid)])]
    texts = [*sessions[-1].outputs[:4], *pages]
    assert [max(map(len, text.splitlines())) > 200 or len(text.splitlines()) > 80 for text in texts] == [False] * 6
    for text in texts[:5]:
        assert '100 threads 2-101 ("worker-0" ... "worker-99")' in text
    assert "; threads 2-101 wait for queue.Queue jobs" in texts[5]
    for text in texts[1:5]:
        assert "not all tasks are done (1 unfinished task, 0 queued; a condition has no owner" in " ".join(text.split())
    assert "#0" not in texts[2]
    assert {tuple(thread["stack"]) for thread in sessions[-1].document(4)["threads"]} == {()}
