"""gdbext at a terminal, loaded as the documentation describes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import interpreters, samples
from tests.support.gdb_session import Interactive
from tests.support.interpreters import CHECKOUT
from tests.support.patience import patience
from tests.support.samples import Sample

COMMANDS = (
    "gil-holder",
    "rwlock-owner",
    "lock-owner",
    "py-threads-locks",
    "py-deadlocks",
    "py-mixed-bt",
)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home directory whose .gdbinit is gdbinit.example, adapted as that file describes."""
    example = (CHECKOUT / "gdbinit.example").read_text()
    lines = [line for line in example.splitlines() if line.strip() and not line.startswith("#")]
    assert lines == ["source /path/to/checkout/gdbext/gdbext"]
    home = tmp_path / "home"
    home.mkdir()
    (home / ".gdbinit").write_text(lines[0].replace("/path/to/checkout", str(CHECKOUT)) + "\n")
    return home


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """A working directory outside of the checkout."""
    path = tmp_path / "elsewhere"
    path.mkdir()
    return path


def test_two_line_form_loads_the_commands(home: Path, elsewhere: Path) -> None:
    """Load them with the commented-out lines of gdbinit.example."""
    example = (CHECKOUT / "gdbinit.example").read_text()
    lines = [line[1:].strip() for line in example.splitlines() if line.startswith("#   ")]
    assert lines == ["directory /path/to/checkout/gdbext", "source gdbext"]
    (home / ".gdbinit").write_text("\n".join(lines).replace("/path/to/checkout", str(CHECKOUT)) + "\n")
    with Interactive([], home=home, cwd=elsewhere, read_init=True) as gdb:
        assert gdb.command("help py-deadlocks").startswith("Show the verdict")


def test_file_named_gdbext_in_the_working_directory_is_not_run(home: Path, elsewhere: Path) -> None:
    (elsewhere / "gdbext").write_text("echo this is another file\\n\n")
    with Interactive([], home=home, cwd=elsewhere, read_init=True) as gdb:
        assert "another file" not in gdb.greeting
        assert gdb.command("help py-deadlocks").startswith("Show the verdict")


@pytest.fixture
def sample(tmp_path: Path) -> Iterator[Sample]:
    """A deadlocked program."""
    python, _ = interpreters.use(interpreters.ANY)
    with samples.rapids(python, "rwlock", tmp_path / "sample") as running:
        yield running


def test_two_lines_in_gdbinit_load_the_commands(home: Path, elsewhere: Path) -> None:
    with Interactive([], home=home, cwd=elsewhere, read_init=True) as gdb:
        assert "Error" not in gdb.greeting
        assert "No such file" not in gdb.greeting
        for command in COMMANDS:
            text = gdb.command(f"help {command}")
            assert "Undefined command" not in text
            assert command in text


def test_folder_named_gdbext_in_the_working_directory_is_ignored(home: Path, elsewhere: Path) -> None:
    (elsewhere / "gdbext").mkdir()
    with Interactive([], home=home, cwd=elsewhere, read_init=True) as gdb:
        assert "py-deadlocks" in gdb.command("help py-deadlocks")


def test_help_reads_like_a_man_page(home: Path, elsewhere: Path) -> None:
    with Interactive([], home=home, cwd=elsewhere, read_init=True) as gdb:
        text = gdb.command("help py-deadlocks")
    assert "--json" in text
    assert re.search(r"^ *(?:\(gdb\) *)?py-deadlocks", text, re.MULTILINE), "no synopsis or example"
    assert "example" in text.lower()


def test_options_complete_with_tab(home: Path, elsewhere: Path) -> None:
    with Interactive([], home=home, cwd=elsewhere, read_init=True) as gdb:
        gdb.type("py-threads-locks --st\t")
        # readline rings the bell because the option has several values
        gdb.process.expect(r"py-threads-locks --st\x07?acks=", timeout=patience(60))
        gdb.take_back()
        assert "= 2" in gdb.command("print 1 + 1")


def test_completion_offers_every_option(home: Path, elsewhere: Path) -> None:
    with Interactive([], home=home, cwd=elsewhere, read_init=True) as gdb:
        text = gdb.command("complete py-threads-locks --")
    for option in ("--json", "--each", "--stacks", "--dot"):
        assert option in text


def test_failure_is_one_line(home: Path, elsewhere: Path) -> None:
    with Interactive([], home=home, cwd=elsewhere, read_init=True) as gdb:
        for command in COMMANDS:
            assert re.fullmatch(rf"{command}: [^\n]+; [^\n]+", gdb.command(command))


def test_interrupt_leaves_gdb_usable(home: Path, elsewhere: Path, sample: Sample) -> None:
    with Interactive(["-p", str(sample.pid)], home=home, cwd=elsewhere, read_init=True) as gdb:
        gdb.start("py-threads-locks")
        gdb.interrupt()
        assert "= 2" in gdb.command("print 1 + 1")
        text = gdb.command("py-deadlocks")
        assert f"rapids.py:{sample.truth.threads['main'].stack[0][2]}" in text
        assert "Traceback" not in gdb.transcript
    assert not sample.is_stopped()


def test_selected_thread_and_frame_stay(home: Path, elsewhere: Path, sample: Sample) -> None:
    with Interactive(["-p", str(sample.pid)], home=home, cwd=elsewhere, read_init=True) as gdb:
        gdb.command("thread 2")
        gdb.command("frame 2")
        thread, frame = gdb.command("thread"), gdb.command("frame")
        assert thread.startswith("[Current thread is 2 ")
        assert frame.startswith("#2 ")
        for command in COMMANDS:
            gdb.command(command)
            assert (gdb.command("thread"), gdb.command("frame")) == (thread, frame), command
