"""How far a run has come: a bar on a terminal, lines elsewhere."""

from __future__ import annotations

import fcntl
import io
import os
import select
import struct
import sys
import termios
import threading
import time

import pytest

from gdbext.launcher.snapshots.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, which tests move."""
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setenv("TERM", "xterm")
    return now


def last_line(stream: io.StringIO) -> str:
    return stream.getvalue().rpartition("\r")[2].strip()


def test_bar_on_a_terminal_counts_targets_and_failures(clock: list[float]) -> None:
    stream = Terminal()
    threads = threading.active_count()
    progress = Progress(40, "gdbext triage", stream)
    assert threading.active_count() == threads
    for failed in (False, True):
        progress.advance(failed)
    clock[0] += 2
    progress.tick()
    assert last_line(stream).startswith("gdbext triage:")
    assert "| 2/40 [" in last_line(stream)
    assert "1 not read]" in last_line(stream)
    progress.say("cores/x: not a core")
    assert "\rcores/x: not a core\n" in stream.getvalue().replace(" " * 69, "").replace("\r\r", "\r")
    progress.clear()
    assert last_line(stream) == ""
    assert "\n" not in stream.getvalue().partition("not a core\n")[2]


def test_bar_fits_a_narrow_terminal(clock: list[float]) -> None:
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 30, 0, 0))
    with open(theirs, "w") as stream:
        progress = Progress(1000, stream=stream)
        progress.advance()
        clock[0] += 2
        progress.tick()
        found = ""
        while "1/1000" not in found:  # the terminal may deliver each line by itself
            assert select.select([ours], [], [], 30)[0], found
            found += os.read(ours, 4096).decode()
    os.close(ours)
    assert max(map(len, found.split("\r"))) <= 30


@pytest.mark.parametrize("terminal", [False, True])
def test_lines_that_cannot_be_written_are_left_out(clock: list[float], terminal: bool) -> None:
    with open("/dev/full", "w", buffering=1) as stream:
        progress = Progress(2, stream=stream)
        if terminal:
            progress = Progress(2, stream=Terminal())
            progress._bar.fp = progress._stream = stream
            progress._bar.sp = progress._bar.status_printer(stream)
        progress.advance(True)
        clock[0] += 1000
        progress.tick()
        progress.say("one of them failed")
        progress.clear()
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())  # what is left is written when it is closed


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()])
def test_progress_without_terminal_is_plain_lines(clock: list[float], stream: io.StringIO,
                                                  monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    progress = Progress(1000, name="gdbext triage", stream=stream)
    for _ in range(200):
        progress.advance()
        clock[0] += 0.5
        progress.tick()
    progress.advance(failed=True)
    clock[0] += 20
    progress.tick()
    lines = stream.getvalue().splitlines()
    assert lines[0] == "gdbext triage: 30 of 1,000, 08:05 left"
    assert lines[-1] == "gdbext triage: 201 of 1,000, 1 not read, 07:57 left"
    assert len(lines) == 7
    assert "\r" not in stream.getvalue()


def test_without_tqdm_only_what_is_said_is_written(clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tqdm", None)
    stream = Terminal()
    progress = Progress(2, stream=stream)
    progress.advance()
    clock[0] += 1000
    progress.tick()
    progress.say("cores/x: not a core")
    progress.clear()
    assert stream.getvalue() == "cores/x: not a core\n"
