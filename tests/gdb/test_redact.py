"""What is private of real processes is in no output of a verb with `--redact`."""

from __future__ import annotations

import os
import pwd
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.launcher import environment
from tests.support.patience import patience
from tests.support.ranks import running

#: Two threads that deadlock over locks of objects with a name, and a connection to a peer.
PROGRAM = """
import socket, sys, threading
class Account:
    def __init__(self, name):
        self.name, self.lock = name, threading.Lock()
first, second, both = Account("customer-one"), Account("customer-two"), threading.Barrier(2)
def work(one, other):
    password = "value-of-a-variable"
    with one.lock:
        both.wait()
        with other.lock:  # comment-in-source
            pass
for pair in (first, second), (second, first):
    threading.Thread(target=work, args=pair).start()
peer = socket.create_connection(("127.0.0.2", int(sys.argv[1])), source_address=("127.0.0.3", 0))
peer.sendall(b"x")
peer.recv(1)
"""
SECRETS = ("customer-", "value-of", "comment-in", "token-of", "alice", "acme", socket.gethostname())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "home" / "alice" / "acme"
    made.mkdir(parents=True)
    (made / "app.py").write_text(PROGRAM)
    return made


@contextmanager
def program(folder: Path) -> Iterator[int]:
    """The PID of the program, when it has connected."""
    with socket.create_server(("127.0.0.2", 0)) as server:
        process = subprocess.Popen([sys.executable, str(folder / "app.py"), str(server.getsockname()[1]), "token-of"])
        try:
            connection, _ = server.accept()
            with connection:
                connection.recv(1)
                yield process.pid
        finally:
            process.kill()
            process.wait()


def output_of(*arguments: str | Path, cwd: Path) -> str:
    ran = subprocess.run([sys.executable, "-m", "gdbext", *map(str, arguments)], env=environment(), cwd=cwd, text=True,
                         capture_output=True, stdin=subprocess.DEVNULL, timeout=patience(60), check=False)
    assert ran.returncode in (0, 1, 5, 124), ran.stderr
    return ran.stdout + ran.stderr


def leaks(text: str, folder: Path) -> list[str]:
    names = {pwd.getpwuid(os.geteuid()).pw_name} - {"root", "user", "app"}
    return [secret for secret in (*SECRETS, *names, str(folder.parents[2])) if secret in text]


@pytest.mark.parametrize("arguments", [
    ("report", "PID"), ("report", "PID", "--locals", "--json"), ("report", "PID", "--brief"),
    ("report", "PID", "--html", "PAGE"), ("report", "PID", "--children"), ("triage", "PID"),
    ("triage", "PID", "--json"), ("triage", "PID", "--html", "PAGE"), ("dump", "--pid", "PID", "--locals")],
    ids=" ".join)
def test_nothing_private_of_a_process_is_shown(arguments: tuple[str, ...], folder: Path) -> None:
    page = folder.parents[2] / "page.html"
    with program(folder) as pid:
        given = [str(page) if word == "PAGE" else str(pid) if word == "PID" else word for word in arguments]
        text = output_of(*given, "--redact", cwd=folder)
    shown = text.replace(str(page), "") + (page.read_text() if page.exists() else "")
    assert "app.py" in shown
    assert leaks(shown, folder) == []
    if arguments[0] != "dump":
        assert "what is private: the arguments of the program" in shown


def test_source_lines_are_shown_if_they_are_wanted(folder: Path) -> None:
    with program(folder) as pid:
        text = output_of("report", str(pid), "--redact", "--source", cwd=folder)
    assert "comment-in-source" in text
    assert leaks(text.replace("comment-in", ""), folder) == []


def test_run_with_redact_hides_the_command(folder: Path) -> None:
    pages = folder / "pages"
    with socket.create_server(("127.0.0.2", 0)) as server:
        port = str(server.getsockname()[1])
        kept: list[object] = []  # a closed connection would end the program
        threading.Thread(target=lambda: kept.append(server.accept()), daemon=True).start()
        text = output_of("run", "--redact", "--idle", "1s", "--exit", "--html", "pages", "--", sys.executable,
                         str(folder / "app.py"), port, "token-of", cwd=folder)
    (page,) = pages.iterdir()
    assert "DEADLOCK" in text
    shown = text.replace(str(page), "") + page.read_text()
    assert leaks(shown, folder) == [], shown


def test_core_in_a_folder_is_named_by_its_file(folder: Path) -> None:
    (folder / "cores").mkdir()
    (folder / "cores" / "core.1").write_bytes(b"not a core")
    text = output_of_failure("triage", "cores/core.1", str(folder / "cores" / "core.1"), "--redact", cwd=folder)
    assert ".../core.1" in text
    assert "cores/" not in text
    assert leaks(text, folder) == []


def output_of_failure(*arguments: str, cwd: Path) -> str:
    ran = subprocess.run([sys.executable, "-m", "gdbext", *arguments], env=environment(), cwd=cwd, text=True,
                         capture_output=True, stdin=subprocess.DEVNULL, timeout=patience(60), check=False)
    assert ran.returncode == 3
    return ran.stdout + ran.stderr


def test_ranks_of_a_job_are_shown_without_the_machine(tmp_path: Path) -> None:
    with running("lock", tmp_path) as job:
        for options in ([], ["--json"]):
            ran = subprocess.run([sys.executable, "-m", "gdbext", "ranks", str(job.pid), "--redact", *options],
                                 env=environment(), text=True, capture_output=True, check=False)
            assert ran.returncode == 1, ran.stderr
            text = ran.stdout + ran.stderr
            assert "all_reduce" in text
            assert [secret for secret in (socket.gethostname(), str(tmp_path), "samples/") if secret in text] == []
