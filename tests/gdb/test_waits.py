"""What threads of small programs wait for: results of pools, and writes that the debugger has interrupted."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
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

pool = multiprocessing.Pool(1)
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
            process.kill()  # first, since it would start other workers
            for child in children:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(child), signal.SIGKILL)


@pytest.mark.parametrize("name", [*interpreters.VERSIONS, *interpreters.FREE_THREADED_VERSIONS])
def test_wait_for_the_result_of_a_pool_is_no_wait_for_an_event(name: str) -> None:
    python, symbols = interpreters.use(name)
    with running(python, RESULTS) as pid:
        def look() -> gdb_session.Result:
            nonlocal session
            session = gdb_session.batch(["-p", str(pid)], COMMANDS, symbols=symbols)
            assert session.status == 0
            return session

        def states() -> dict[str, str]:
            document = look().document()
            locks = {lock["id"]: lock["state"] for lock in document["locks"]}
            return {thread["python_name"]: locks.get((thread["waits"] or {}).get("lock"), "none")
                    for thread in document["threads"] if thread["python_name"] in WAITERS}

        session = None
        # until then they may wait for the GIL, or for a lock of the pool
        wait_until(lambda: states() == dict.fromkeys(WAITERS, "result is pending"), "all to wait for their results")
        assert session is not None
        waiting = [line for line in session.outputs[1].splitlines() if "hread" in line.split("(")[0]]
        places = [place for place, line in enumerate(waiting) if "result is pending" in line]
        assert len(places) == len(WAITERS)
        assert max(places) < min(place for place, line in enumerate(waiting) if "queue is empty" in line)
