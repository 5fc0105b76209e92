"""What starts before the launcher loads its modules."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gdbext.launcher.snapshots import server
from gdbext.launcher.start import main
from tests.support import fake_core
from tests.support.fake_core import NT_PRSTATUS, R, W, note, state


@pytest.fixture(autouse=True)
def _server() -> Iterator[None]:
    server.end_server()
    yield
    server.end_server()


@pytest.mark.parametrize(("words", "starts"), [
    ("report", True), ("dump --no-gdb", True), ("report --gdb gdb", False), ("report --gdb=gdb", False),
    ("report --debuginfod", False), ("doctor", False), ("", False)])
def test_only_verbs_that_read_one_target_start_the_process(
        words: str, starts: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["gdbext", *words.split(), "--help"])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 0
    assert "usage: gdbext" in capsys.readouterr().out
    assert (server._server is not None) is starts


@pytest.mark.parametrize("closed", ["0<&-", "1>&-", "2>&-", ""])
def test_closed_stream_is_not_mistaken_for_that_of_the_process(closed: str, tmp_path: Path) -> None:
    core, file = tmp_path / "core", tmp_path / "report"
    core.write_bytes(fake_core.core([(R | W, 0x7000, 4096)], note(NT_PRSTATUS, state(77, 0))))
    command = f'exec "$@" {closed}'
    made = subprocess.run(["bash", "-c", command, "bash", sys.executable, "-m", "gdbext", "report", str(core),
                           "--no-gdb", "--dot", str(file)], capture_output=True, text=True, check=False,
                          env={**os.environ, "COLUMNS": "200"})
    assert ("Thread 1 (LWP 77)" in made.stdout) is (closed != "1>&-")
    assert file.exists() is (closed != "1>&-")


def test_process_that_cannot_start_is_reported_by_the_snapshot(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    core = tmp_path / "core"
    core.write_bytes(fake_core.core([(R | W, 0x7000, 4096)], note(NT_PRSTATUS, state(77, 0))))
    monkeypatch.setattr(sys, "executable", "")
    monkeypatch.setattr(sys, "argv", ["gdbext", "report", str(core), "--no-gdb"])
    assert main() == 3
    assert "does not know its Python" in capsys.readouterr().err
