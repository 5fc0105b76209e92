"""Programs linked with musl, and with glibc statically: what is said of their hangs."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support import cores, samples
from tests.support.launcher import launch

COMPILER = shutil.which("musl-gcc")


needs_musl = pytest.mark.skipif(COMPILER is None, reason="musl-gcc is not installed; Debian has it in musl-tools")


@pytest.mark.parametrize("stripped", [False, True], ids=["symbols", "stripped"])
def test_static_glibc_is_decoded(stripped: bool, tmp_path: Path) -> None:
    """The program contains the version for libthread_db, but not the banner."""
    program = tmp_path / "abba"
    flags = ["-s"] if stripped else []
    subprocess.run(["gcc", "-static", "-O1", "-pthread", *flags, "-o", program, samples.SOURCES / "abba.c"], check=True)
    with samples.running([program, "mutex"], tmp_path) as sample:
        document = launch("report", str(sample.pid), "--json").document()
    assert str(document["target"]["libc"]).startswith("glibc 2.")
    held = {lock.address for lock in sample.truth.locks.values() if lock.address}
    cycle, = document["deadlocks"]
    assert {int(edge["lock"].partition(":")[2], 16) for edge in cycle["edges"]} <= held


@pytest.mark.parametrize(("compiler", "verdict", "status"), [
    ("gcc -static", "deadlock", 1), pytest.param("musl-gcc", "unknown", 3, marks=needs_musl)])
def test_core_of_a_hang_that_was_killed_is_no_crash(compiler: str, verdict: str, status: int, tmp_path: Path) -> None:
    """The signal came from another process: the program was killed because it hung."""
    program = tmp_path / "abba"
    subprocess.run([*compiler.split(), "-O1", "-pthread", "-o", program, samples.SOURCES / "abba.c"], check=True)
    with samples.running([program, "mutex"], tmp_path) as sample:
        core = cores.kernel_core(sample)
    ran = launch("report", core, "--json")
    document = ran.document()
    assert (document["verdict"]["kind"], ran.status) == (verdict, status)
    assert document["crash"]["fault"]["kind"] == "sent", "what the kernel recorded is still in the report"
