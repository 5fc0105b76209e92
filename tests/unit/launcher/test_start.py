"""What starts before the launcher loads its modules."""

from __future__ import annotations

import os
import signal
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
    ("report", True), ("4711", True), ("dump --no-gdb", True), ("report --gdb gdb", False), ("report --gdb=gdb", False),
    ("report --debuginfod", False), ("doctor", False), ("", False)])
def test_only_verbs_that_read_one_target_start_the_process(
        words: str, starts: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["gdbext", *words.split(), "--help"])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 0
    assert "usage: gdbext" in capsys.readouterr().out
    assert (server._server is not None) is starts


@pytest.fixture
def core(tmp_path: Path) -> Path:
    path = tmp_path / "core"
    path.write_bytes(fake_core.core([(R | W, 0x7000, 4096)], note(NT_PRSTATUS, state(77, 0))))
    return path


@pytest.mark.parametrize("closed", ["0<&-", "1>&-", "2>&-", ""])
def test_closed_stream_is_not_mistaken_for_that_of_the_process(closed: str, core: Path, tmp_path: Path) -> None:
    file = tmp_path / "report"
    command = f'exec "$@" {closed}'
    made = subprocess.run(["bash", "-c", command, "bash", sys.executable, "-m", "gdbext", "report", str(core),
                           "--no-gdb", "--dot", str(file)], capture_output=True, text=True, check=False,
                          env={**os.environ, "COLUMNS": "200"})
    assert ("Thread 1 (LWP 77)" in made.stdout) is (closed != "1>&-")
    assert file.exists() is (closed != "1>&-")


#: Starts gdbext, and gets the signal of Ctrl-C when a module is loaded.
INTERRUPTED = """
import os, signal, sys
from gdbext.launcher.start import main
class Finder:
    def find_spec(self, name, path, target=None):
        if name == {name!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder())
sys.argv = ["gdbext", "report", {core!r}, "--no-gdb"]
sys.exit(main())
"""


@pytest.mark.parametrize(("module", "status", "line"), [
    ("gdbext.launcher.snapshots.server", -signal.SIGINT, ""), ("gdbext.launcher.cli", -signal.SIGINT, ""),
    ("gdbext.launcher.verbs.report", 130, "gdbext: interrupted\n")])
def test_interrupt_while_modules_are_loaded_shows_no_traceback(module: str, status: int, line: str,
                                                               core: Path) -> None:
    made = subprocess.run([sys.executable, "-c", INTERRUPTED.format(name=module, core=str(core))],
                          capture_output=True, text=True, check=False)
    assert (made.returncode, made.stdout, made.stderr) == (status, "", line)


def test_too_few_descriptors_are_named() -> None:
    failed = 0
    with subprocess.Popen(["sleep", "1000"]) as target:
        try:
            for count in range(8, 13):
                made = subprocess.run(
                    ["bash", "-c", f'ulimit -n {count}; exec "$@"', "bash", sys.executable, "-m", "gdbext", "report",
                     str(target.pid), "--no-gdb"], capture_output=True, text=True, check=False)
                if f"(LWP {target.pid})" not in made.stdout:
                    failed += 1
                    assert made.returncode == 3
                    assert "Too many open files" in made.stderr
        finally:
            target.kill()
    assert failed > 1


def test_process_that_cannot_start_is_reported_by_the_snapshot(
        core: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "executable", "")
    monkeypatch.setattr(sys, "argv", ["gdbext", "report", str(core), "--no-gdb"])
    assert main() == 3
    assert "does not know its Python" in capsys.readouterr().err
