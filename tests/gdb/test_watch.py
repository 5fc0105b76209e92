"""`gdbext watch` on real processes."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import samples
from tests.support.interpreters import CHECKOUT
from tests.support.launcher import environment
from tests.support.patience import patience

HANGS = CHECKOUT / "tests" / "samples" / "hangs.py"
PATIENCE = patience(60)


@contextlib.contextmanager
def program(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen([sys.executable, *arguments], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.readline()
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@contextlib.contextmanager
def watch(*arguments: str, output: Path, errors: Path = Path(os.devnull)) -> Iterator[subprocess.Popen[bytes]]:
    with open(output, "wb") as file, open(errors, "wb") as said:
        process = subprocess.Popen([sys.executable, "-m", "gdbext", "watch", *arguments], env=environment(),
                                   stdin=subprocess.DEVNULL, stdout=file, stderr=said)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def wait_for_lines(count: int, output: Path) -> list[str]:
    end = time.monotonic() + PATIENCE
    while len(lines := output.read_text().splitlines()) < count:
        assert time.monotonic() < end, lines
        time.sleep(0.05)
    return lines


def test_hang_is_handed_on_once_and_is_the_exit_status(tmp_path: Path) -> None:
    output, pages = tmp_path / "output", tmp_path / "pages"
    command = f'echo "$GDBEXT_PID $GDBEXT_STATUS $GDBEXT_HTML" >> {tmp_path}/executed; cat > {tmp_path}/document'
    with program(str(HANGS), "deadlock") as hung, watch(
            str(hung.pid), "--every", "0.3", "--for", "1", "--json", "--html", str(pages), "--exec", command,
            output=output) as watcher:
        (line,) = wait_for_lines(1, output)
        document = json.loads(line)
        assert document["verdict"]["kind"] == "deadlock"
        time.sleep(4)
        assert output.read_text() == f"{line}\n"
        # it continues and is still again: the same hang
        hung.send_signal(signal.SIGSTOP)
        time.sleep(1)
        hung.send_signal(signal.SIGCONT)
        time.sleep(3)
        assert output.read_text() == f"{line}\n"
        assert "TracerPid:\t0\n" in Path(f"/proc/{hung.pid}/status").read_text()
        hung.kill()
        hung.wait()
        assert watcher.wait(PATIENCE) == 1
    (page,) = pages.iterdir()
    assert (tmp_path / "executed").read_text() == f"{hung.pid} 1 {page}\n"
    assert json.loads((tmp_path / "document").read_text()) == document
    assert "DEADLOCK" in page.read_text()


def test_lines_say_what_is_watched_and_what_each_sample_and_report_found(tmp_path: Path) -> None:
    output, errors, mark = tmp_path / "output", tmp_path / "errors", f"token-watched-{os.getpid()}"
    output.touch()
    with program(str(HANGS), "deadlock", mark) as hung, program("-c", samples.IDLE, mark) as idle, watch(
            "--name", mark, "--every", "0.3", "--for", "1", "--redact", output=output, errors=errors):
        end = time.monotonic() + PATIENCE
        while errors.read_text().count("hang: ") < 2:
            assert time.monotonic() < end, errors.read_text()
            time.sleep(0.05)
        told, text = errors.read_text(), output.read_text()
    lines = [re.sub(r"^gdbext watch: \d\d:\d\d:\d\d ", "", line) for line in told.splitlines()]
    python = Path(sys.executable).name
    names = f"{hung.pid} ({python} hangs.py)", f"{idle.pid} ({python})"
    assert lines[0] == "a sample every 0.3 s, a report on a process that does not move for 1 s"
    assert lines[1] == "watches " + ", ".join(sorted(names, key=lambda name: int(name.split()[0])))
    assert lines[2] == "2 processes, 2 moved"
    assert any(re.fullmatch(r"2 processes, 0 moved; nothing moved in \d+ \(.*\) for \d+ s, .*", line) for line in lines)
    assert any(line.startswith(f"{names[0]}: a new hang: DEADLOCK: 2 threads wait for each other") for line in lines)
    assert any(line.startswith(f"{names[1]}: no hang: NOTHING WRONG FOUND: ") for line in lines)
    assert text.count("DEADLOCK") == 1
    # --redact
    assert mark not in told + text
    assert str(HANGS.parent) not in told + text
    assert text.splitlines()[-2].startswith("Left out: what is private: the arguments of the program")


BURNS = "print(flush=True)\nwhile True: pass"


@pytest.mark.parametrize("code", [samples.IDLE, BURNS], ids=["idle", "burns"])
def test_process_that_does_not_hang_is_not_handed_on(code: str, tmp_path: Path) -> None:
    output = tmp_path / "output"
    with program("-c", code) as process, watch(str(process.pid), "--every", "0.3", "--for", "1",
                                               output=output) as watcher:
        time.sleep(4)
        assert watcher.poll() is None
        process.kill()
        process.wait()
        assert watcher.wait(PATIENCE) == 0
    assert output.read_text() == ""


def test_processes_by_name_and_old_pages_are_removed(tmp_path: Path) -> None:
    output, pages, mark = tmp_path / "output", tmp_path / "pages", f"gdbext-watched-{os.getpid()}"
    # names of pages that are not pages
    pages.mkdir()
    (pages / "hang-1-x.html").symlink_to("missing")
    os.mkfifo(pages / "hang-2-x.html")
    (pages / "hang-3-x.html").mkdir()
    others = sorted(pages.iterdir())
    with watch("--name", mark, "--every", "0.3", "--for", "1", "--json", "--html", str(pages), "--keep", "1",
               output=output) as watcher, program(str(HANGS), "deadlock", mark) as one, program(
            str(HANGS), "deadlock", mark) as other:
        found = [json.loads(line)["target"]["pid"] for line in wait_for_lines(2, output)]
        assert sorted(found) == sorted([one.pid, other.pid])
        end = time.monotonic() + PATIENCE
        while len(list(pages.iterdir())) != 4 and time.monotonic() < end:
            time.sleep(0.05)
        (page,) = set(pages.iterdir()) - set(others)
        assert page.name.startswith(f"hang-{found[1]}-")
        assert watcher.poll() is None
        watcher.send_signal(signal.SIGTERM)
        assert watcher.wait(PATIENCE) == 128 + signal.SIGTERM


def test_page_that_cannot_be_written_does_not_end_the_watch(tmp_path: Path) -> None:
    output = tmp_path / "output"
    output.touch()
    pages = output / "pages"
    with program(str(HANGS), "deadlock") as hung, watch(
            str(hung.pid), "--quiet", "--every", "0.3", "--for", "1", "--json", "--html", str(pages), output=output,
            errors=tmp_path / "errors") as watcher:
        wait_for_lines(1, output)
        assert watcher.poll() is None
        hung.kill()
        hung.wait()
        assert watcher.wait(PATIENCE) == 1
    (line,) = (tmp_path / "errors").read_text().splitlines()
    assert re.fullmatch(f"gdbext watch: cannot write {pages}/hang-.*: Not a directory; name another folder", line)


def test_hundred_processes_cost_next_to_nothing(tmp_path: Path) -> None:
    """A round over 100 processes takes less than 1 % of the default period of 60 s."""
    mark = f"gdbext-hundred-{os.getpid()}"
    sleeping = [subprocess.Popen(["sh", "-c", "sleep 1000; :", mark], start_new_session=True) for _ in range(100)]
    try:
        with watch("--name", mark, "--every", "1s", "--for", "1h", output=tmp_path / "output") as watcher:
            time.sleep(2)
            before = ticks(watcher.pid)
            time.sleep(5)
            rounds = 5
            assert (ticks(watcher.pid) - before) / rounds < 60  # hundredths of a second
    finally:
        for process in sleeping:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def test_wrong_options_are_bad_usage() -> None:
    for arguments in ([], ["5", "--name", "x"], ["5", "--every", "never"]):
        ran = subprocess.run([sys.executable, "-m", "gdbext", "watch", *arguments], env=environment(), text=True,
                             capture_output=True, check=False)
        assert ran.returncode == 2
        assert re.search(r"^gdbext watch: ", ran.stderr, re.MULTILINE)
