"""The process that takes snapshots of cores, as the launcher starts it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gdbext.launcher.snapshots import server
from gdbext.launcher.snapshots.direct import read_without_gdb
from gdbext.launcher.snapshots.limit import Limit
from gdbext.launcher.snapshots.options import Options, Target
from gdbext.launcher.snapshots.server import end_server
from gdbext.launcher.snapshots.snapshot import end_running, take_snapshot
from gdbext.launcher.status import NO_ANSWER, NO_GDB, Unreadable
from tests.support import fake_core
from tests.support.documents import left_out
from tests.support.fake_core import NT_PRSTATUS, R, W, note, state

REQUEST: dict[str, object] = {"options": {}}


@pytest.fixture(autouse=True)
def _server() -> Iterator[None]:
    yield
    end_server()


@pytest.fixture
def core(tmp_path: Path) -> Path:
    path = tmp_path / "core"
    path.write_bytes(fake_core.core([(R | W, 0x7000, 4096)], note(NT_PRSTATUS, state(77, 0))))
    return path


def read(path: Path, timeout: float = 60.0, **members: object) -> Any:
    with path.open("rb") as file:
        return read_without_gdb("the core", {**REQUEST, **members}, file.fileno(), Limit(timeout))


def test_one_process_answers_many_requests(core: Path) -> None:
    answers = [read(core) for _ in range(3)]
    assert [thread["lwp"] for thread in json.loads(answers[0]["document"])["threads"]] == [77]
    assert answers[0]["document"] == answers[2]["document"]
    assert "Thread 1 (LWP 77)" in answers[1]["text"]
    assert server._server is not None


def test_what_is_left_out_is_one_line_of_the_report_with_the_command_that_shows_it(core: Path) -> None:
    answer = read(core)
    assert left_out(json.loads(answer["document"])) == {"frames"}
    assert answer["text"].count("\nLeft out: the callers of frames without a frame description (shown by `gdbext "
                                "report CORE --gdb gdb` and `gdbext attach CORE`)\n") == 1


def test_bad_core_is_one_line_and_the_next_core_is_read(core: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad"
    bad.write_bytes(core.read_bytes()[:80])
    with pytest.raises(Unreadable, match="the core has no thread"):
        read(bad)
    assert json.loads(read(core)["document"])["threads"]


def test_time_limit_ends_a_snapshot(core: Path) -> None:
    read(core)
    with pytest.raises(Unreadable, match="was not read within 0.0001 s"):
        read(core, 0.0001)
    assert json.loads(read(core)["document"])["threads"]


def test_lower_limit_on_memory_is_kept(core: Path) -> None:
    """A limit that an administrator has set cannot be raised: all snapshots ended without an answer."""
    source = ("from gdbext.launcher.snapshots.direct import read_without_gdb; "
              f"from gdbext.launcher.snapshots.limit import Limit; file = open({str(core)!r}, 'rb'); "
              f"print(len(read_without_gdb('the core', {REQUEST!r}, file.fileno(), Limit(60))['text']))")
    made = subprocess.run(["bash", "-c", 'ulimit -v 2000000 && exec "$@"', "bash", sys.executable, "-c", source],
                          capture_output=True, text=True, check=False)
    assert int(made.stdout or 0) > 100, made.stderr


def test_server_that_has_ended_is_started_again(core: Path) -> None:
    read(core)
    end_running()
    assert server._server is None
    assert json.loads(read(core)["document"])["threads"]


def test_server_that_cannot_start_is_one_line(core: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_START", "raise SystemExit('no such package')")
    with pytest.raises(Unreadable, match="no such package"):
        read(core)


def test_snapshot_without_gdb_of_a_core_and_of_a_process(core: Path) -> None:
    seen = take_snapshot(Target(core=core), Options(without_gdb=True))
    assert seen.document is not None
    assert seen.document["target"]["kind"] == "core"
    with subprocess.Popen(["sleep", "1000"]) as child:
        process = take_snapshot(Target(pid=child.pid), Options(without_gdb=True))
        child.kill()
    assert process.document is not None
    assert (process.document["target"]["pid"], process.stopped) == (child.pid, 0.0)


def test_process_that_does_not_exist_is_one_line() -> None:
    seen = take_snapshot(Target(pid=1 << 30), Options(without_gdb=True))
    assert (seen.status, seen.document) == (NO_ANSWER, None)
    assert f"there is no process {1 << 30}" in (seen.problem or "")


def test_core_is_read_without_gdb_where_there_is_none(core: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(core.parent))
    monkeypatch.delenv("GDBEXT_GDB", raising=False)
    assert take_snapshot(Target(core=core), Options()).document is not None
    named = take_snapshot(Target(core=core), Options(gdb="/nonexistent/gdb"))
    assert (named.status, named.document) == (NO_GDB, None)


def test_file_that_is_no_core_has_no_answer(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_text("no core")
    seen = take_snapshot(Target(core=path), Options(without_gdb=True))
    assert (seen.status, seen.document) == (NO_ANSWER, None)
