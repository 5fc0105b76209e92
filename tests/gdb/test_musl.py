"""musl: its locks are not decoded, so no owner is reported and no deadlock is ruled out."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support import gdb_session, samples

COMPILER = shutil.which("musl-gcc")


@pytest.mark.skipif(COMPILER is None, reason="musl-gcc is not installed; Debian has it in musl-tools")
@pytest.mark.parametrize("static", [False, True], ids=["shared", "static"])
def test_musl_locks_have_no_owner_and_no_verdict(static: bool, tmp_path: Path) -> None:
    program = tmp_path / "abba"
    flags = ["-static"] if static else []
    subprocess.run([str(COMPILER), "-O1", *flags, "-o", program, samples.SOURCES / "abba.c"], check=True)
    with samples.running([program, "mutex"], tmp_path) as sample:
        session = gdb_session.batch(["-p", str(sample.pid)], ["py-threads-locks --json", "py-deadlocks"])
    document = session.document(0)
    assert document["deadlocks"] == []
    assert "cannot be determined" in session.outputs[1]
    assert "no deadlock" not in session.outputs[1]
    if not static:
        assert document["target"]["libc"] == "musl"
        assert "musl's locks are not decoded" in str(document["problems"])
    held = {lock.address for lock in sample.truth.locks.values()}
    waited = {int(row["address"], 16): row for row in document["locks"] if row["kind"] == "futex"}
    # the futex word is 4 bytes behind the start of the mutex
    assert len([address for address in waited if any(0 <= address - at < 40 for at in held if at)]) == 2
    assert all(row["holders"] == [] and row["orphan"] is None for row in waited.values())
