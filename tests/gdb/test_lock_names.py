"""`lock-owner` with the name that a report gives to a lock."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from tests.support import gdb_session

PROGRAM = """
import threading
accounts, one, other = threading.Lock(), [threading.Lock()], None
def work(lock):
    lock.acquire()
for each in (accounts, *one):
    each.acquire()
    threading.Thread(target=work, args=(each,), daemon=True).start()
print(flush=True)
threading.Event().wait()
"""


@pytest.fixture(scope="module")
def pid() -> Iterator[int]:
    process = subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(0.5)
    with contextlib.closing(process.stdout):
        yield process.pid
    process.kill()
    process.wait()


def owner(pid: int, argument: str) -> str:
    return str(gdb_session.batch(["-p", str(pid)], [f"lock-owner {argument}"]))


def test_lock_is_found_by_the_name_in_the_report(pid: int) -> None:
    said = next(line for line in owner(pid, "").splitlines() if " accounts" in line)
    kind, address, *name = said.partition(",")[0].split(" ")
    assert kind == "threading.Lock"
    assert " ".join(name) == "accounts of <string>"
    for argument in ("accounts of <string>", f"{kind} {address} accounts of <string>", address):
        assert said in owner(pid, argument), argument


def test_name_that_no_lock_has_is_an_error(pid: int) -> None:
    assert "is not an address" in owner(pid, "no such lock")
