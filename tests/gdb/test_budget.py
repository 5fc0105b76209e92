"""The budget of a snapshot, in a real GDB and without one: a walk without end does not keep a process stopped."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from gdbext.direct import one_snapshot
from tests.support import gdb_session, samples
from tests.support.patience import patience
from tests.support.samples import Sample

#: A mistake in a decoder: it reads the same words forever.
_ENDLESS = """python
import gdbext.snapshot
def endless(context):
    seen = next(iter(context.threads))
    while True:
        context.target.memory.read(seen.sp, 8)
gdbext.snapshot.find_waits = endless
end"""


def test_endless_walk_over_known_memory_ends_in_gdb(native: Sample, tmp_path: Path) -> None:
    script = tmp_path / "endless.gdb"
    script.write_text(_ENDLESS)
    began = time.monotonic()
    session = gdb_session.batch(["-p", str(native.pid)], ["set gdbext max-pause 1", f"source {script}", "py-deadlocks"],
                                timeout=patience(60))
    assert time.monotonic() - began < patience(30)
    assert session.status == 1
    (line,) = session.error_lines("py-deadlocks")
    assert "cannot read 8 bytes" in line
    assert "max-pause" in line


def test_report_without_time_is_one_line(tmp_path: Path) -> None:
    with samples.abba("mutex", tmp_path, stripped=True) as sample:
        request = one_snapshot.Request(pid=sample.pid, seconds=0.0)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("gdbext.direct.unmoved._LEAST", 0.0)
            answer = one_snapshot.answer_request(request, "")
        whole = one_snapshot.answer_request(
            one_snapshot.Request(pid=sample.pid), "")
    assert "time for the snapshot was over" in answer["problem"]
    assert "--max-pause" in answer["hint"]
    assert whole["outcome"] == "stuck"
