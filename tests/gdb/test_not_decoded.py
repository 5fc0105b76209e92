"""No verdict for a Python that is not decoded, nor for compiled code waiting for a lock without a recorded owner."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from gdbext.launcher.snapshots.options import Options, Target
from gdbext.launcher.snapshots.snapshot import Snapshot, take_snapshot
from gdbext.launcher.status import FOUND, NO_ANSWER
from tests.support import cores, embedding, gdb_session, samples
from tests.support.samples import Sample, wait_until

NAMES = ("3.6", "3.8", "3.9", "3.11", "3.12", "3.13", "debian", "3.11-stripped", "3.13-stripped")
COMPILED = "compiled Python code is not decoded"


def report(sample: Sample, core: Path | None = None) -> Snapshot:
    target = Target(pid=sample.pid) if core is None else Target(core=core)
    return take_snapshot(target, Options(gdb=gdb_session.executable()))


def lock_kinds(seen: Snapshot) -> list[str]:
    """The kinds of the locks that threads wait for."""
    assert seen.document is not None
    locks = {lock["id"]: lock["kind"] for lock in seen.document["locks"]}
    return sorted(locks[thread["waits"]["lock"]] for thread in seen.document["threads"] if thread["waits"])


# -- compiled code ------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", ["live", "kernel-core"])
def test_holder_of_a_lock_in_compiled_code_is_unknown(kind: str, name: str, tmp_path: Path) -> None:
    with embedding.compiled(name, "lock", tmp_path) as sample:
        seen = report(sample, None if kind == "live" else cores.kernel_core(sample))
    assert [each for each in lock_kinds(seen) if each != "descriptor"] == ["py-lock", "py-lock"]
    assert COMPILED in seen.text
    assert "no deadlock found" not in seen.text
    # another process sent the signal that ended it, which explains nothing
    assert seen.status == NO_ANSWER


@pytest.mark.parametrize("name", NAMES)
def test_standstill_of_compiled_code_is_found(name: str, tmp_path: Path) -> None:
    with embedding.compiled(name, "alone", tmp_path) as sample:
        seen = report(sample)
    assert lock_kinds(seen) == ["py-lock", "py-lock", "thread-exit"]
    assert "STANDSTILL: all 3 threads wait" in seen.text
    assert seen.status == FOUND


@pytest.mark.parametrize("name", NAMES)
def test_deadlock_of_recorded_owners_in_compiled_code_is_found(name: str, tmp_path: Path) -> None:
    with embedding.compiled(name, "rlock", tmp_path) as sample:
        seen = report(sample)
    assert [each for each in lock_kinds(seen) if each != "descriptor"] == ["py-rlock", "py-rlock"]
    # the locks record idents, which new threads may reuse
    assert "\nDEADLOCK: 2 threads wait for each other.\n" in seen.text
    assert re.search("How this is known:\\s+inferred: ", seen.text)
    assert seen.status == FOUND


@pytest.mark.parametrize("name", ["3.6", "3.8", "3.9"])
@pytest.mark.parametrize("kind", ["live", "kernel-core"])
def test_cpython_in_a_stripped_program_is_not_decoded(kind: str, name: str, tmp_path: Path) -> None:
    with embedding.compiled(name, "lock", tmp_path, bare=True) as sample:
        seen = report(sample, None if kind == "live" else cores.kernel_core(sample))
    assert "cannot be determined (CPython without its symbols in compiled" in seen.text
    assert "no deadlock found" not in seen.text
    assert seen.status == NO_ANSWER


# -- other implementations ----------------------------------------------------------------------------------------

ABBA = """
import os, threading
locks = [threading.Lock(), threading.Lock()]
barrier = threading.Barrier(2)
def work(one, two):
    with one:
        barrier.wait()
        with two:
            pass
threads = [threading.Thread(target=work, args=pair) for pair in (locks, locks[::-1])]
for thread in threads:
    thread.start()
"""
#: Prints the truth line when both threads hold a lock.
TRUTH = """
import json
tids = sorted(map(int, os.listdir("/proc/self/task")))
print(json.dumps({"sample": "pypy", "variant": "abba", "pid": os.getpid(), "threads": {
    str(tid): {"tid": tid, "python_name": None, "blocked": True, "syscall": "futex", "stack": []} for tid in tids},
    "locks": {}, "deadlock": [], "stuck_behind": []}), flush=True)
for thread in threads:
    thread.join()
"""


def test_pypy_has_no_verdict(tmp_path: Path) -> None:
    pypy = shutil.which("pypy3")
    if pypy is None:
        pytest.skip("no pypy3 on $PATH; Debian has it in pypy3")
    (tmp_path / "abba.py").write_text(ABBA + TRUTH)
    with samples.running([pypy, tmp_path / "abba.py"], tmp_path) as sample:
        wait_until(lambda: all(sample.in_system_call(tid, "futex") for tid in sample.tids()), "all to wait")
        seen = report(sample)
    assert "UNKNOWN: whether there is a deadlock cannot be determined (PyPy in libpypy" in seen.text
    assert "is not decoded" in seen.text
    assert seen.status == NO_ANSWER
