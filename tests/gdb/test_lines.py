"""Every Python frame has the function, file and line that CPython itself gives it, whatever the code looks like."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import pytest

from gdbext.cpython.objects import MAX_STRING
from gdbext.render.escape import printable
from tests.support import combinations, cores, gdb_session, interpreters, roots, samples
from tests.support.report import Report
from tests.support.samples import Sample, Truth

#: A core is looked at for one interpreter: there, too, frames are read from memory.
CORE_OF = f"{interpreters.ANY}-stripped"
CASES = (
    # line tables are read from memory: symbols make a difference in the native frames only
    *((name, "live") for name in (*interpreters.NAMES, *interpreters.ROOT_PYTHONS)
      if combinations.LONG or not name.endswith("-stripped")),
    # no columns in line tables, no assertions
    (interpreters.ANY, "terse"),
    (CORE_OF, "core"),
)
TERSE = ("-OO", "-X", "no_debug_ranges")
COMMANDS = ("py-threads-locks --json", "py-threads-locks", "py-deadlocks")

Row = tuple[str, str, "int | None", str]


@dataclass(frozen=True)
class Hang:
    """A program full of hanging threads and what gdbext says of it."""

    truth: Truth
    directory: Path
    has_qualified_names: bool
    session: gdb_session.Result

    @property
    def report(self) -> Report:
        """`py-threads-locks --json`."""
        return Report(self.session.document(0), self.truth)

    def blocks(self) -> dict[str, list[str]]:
        """What `py-threads-locks` writes of each thread, by its name: the lines below the heading."""
        found: dict[str, list[str]] = {}
        for block in re.split(r"^(?=Thread \d+ \(LWP)", self.session.outputs[1], flags=re.MULTILINE)[1:]:
            heading, *lines = block.splitlines()
            name = re.search(r'"(.*?)"', heading)
            assert name, heading
            found[name.group(1)] = lines
        return found

    def shown(self, role: str, file: str) -> tuple[int, str | None]:
        """Line number of the first frame of a file in a thread's text, and the source line below it."""
        lines = [line.strip() for line in self.blocks()[role]]
        for index, line in enumerate(lines):
            frame = re.fullmatch(rf"#\d+ .* at {re.escape(file)}:(\d+)", line)
            if frame:
                below = lines[index + 1] if index + 1 < len(lines) else "#"
                return int(frame.group(1)), None if below.startswith("#") else below
        raise AssertionError(f"no frame of {file} in {lines}")


@pytest.fixture(scope="module", params=CASES, ids=["-".join(case) for case in CASES])
def hang(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hang]:
    """One session with every command; the tests below look at parts of it."""
    name, kind = request.param
    directory = tmp_path_factory.mktemp("lines")
    running: AbstractContextManager[Sample]
    if name in interpreters.ROOT_PYTHONS:
        root = roots.use_python(name)
        python, symbols, gdb = root.python, False, root.gdb
        running = samples.lines(python, directory, place=root.place, variables=dict(root.variables))
    else:
        python, symbols = interpreters.use(name)
        gdb = ()
        running = samples.lines(python, directory, TERSE if kind == "terse" else ())
    with running as sample:
        where: list[str | Path] = ["-p", str(sample.pid)]
        if kind == "core":
            where = [python, cores.kernel_core(sample)]
        # not the sample's directory: relative names are not meant from here
        session = gdb_session.batch(where, COMMANDS, symbols=symbols, directory=directory.parent, gdb=gdb)
        (runtime,) = session.document(0)["runtimes"]
        version = tuple(int(part) for part in runtime["version"].split("."))
        yield Hang(sample.truth, directory, version >= (3, 11), session)
    if kind == "core":
        Path(where[1]).unlink()


def cut(text: str) -> str:
    """A string as gdbext reads it: of bounded length, and such that any program can encode it."""
    text = re.sub("[\ud800-\udfff]", "\N{REPLACEMENT CHARACTER}", text)
    return text if len(text) <= MAX_STRING else f"{text[:MAX_STRING]}..."


def test_nothing_goes_wrong(hang: Hang) -> None:
    assert hang.session.status == 0
    for command in ("py-threads-locks", "py-deadlocks"):
        assert hang.session.error_lines(command) == []
    assert "Traceback" not in hang.session.stderr
    document = hang.report.document
    assert document["problems"] == []
    assert document["deadlocks"] == []
    assert hang.session.outputs[2].startswith("No deadlock found")


def test_every_frame_is_where_cpython_says_it_is(hang: Hang) -> None:
    report = hang.report
    assert len(hang.truth.threads) > 100
    assert {row["tid"] for row in report.document["threads"]} == {t.tid for t in hang.truth.threads.values()}
    wrong = {}
    for role, thread in hang.truth.threads.items():
        expected: list[Row] = [
            (cut(function), cut(file), line, cut(qualified))
            for (function, file, line), qualified in zip(thread.stack, thread.qualified_names)
        ]
        found: list[Row] = [
            (frame["function"], frame["file"], frame["line"], frame["qualified_name"])
            for frame in report.thread(role)["stack"]
            if frame["language"] == "python"
        ]
        if found != expected:
            different = [pair for pair in zip(found, expected) if pair[0] != pair[1]]
            wrong[role] = (len(found), len(expected), different[:3])
    assert wrong == {}


def test_a_function_interrupted_where_it_begins(hang: Hang) -> None:
    """What the sample is made for has happened; that gdbext agrees is the test above."""
    handler, interrupted = hang.truth.threads["main"].stack[:2]
    assert handler[0] == "on_signal"
    source = (samples.SOURCES / "lines.py").read_text("utf-8").splitlines()
    assert interrupted[2] is not None
    assert source[interrupted[2] - 1] == "def interrupted("


def test_qualified_names_are_recorded_since_3_11(hang: Hang) -> None:
    recorded = {name for thread in hang.truth.threads.values() for name in thread.qualified_names}
    assert hang.has_qualified_names == ("Fluent.run" in recorded)


def test_python_frames_lie_between_native_ones(hang: Hang) -> None:
    report = hang.report
    for role in hang.truth.threads:
        stack = report.thread(role)["stack"]
        assert stack[0]["language"] == "native", role
        assert "python" in {frame["language"] for frame in stack}, role


def test_source_lines(hang: Hang) -> None:
    """Where the file is what has run, the line shown is the one that runs."""
    sample = samples.SOURCES / "lines.py"
    text = sample.read_text("utf-8").splitlines()
    for role, block in hang.blocks().items():
        lines = [line.strip() for line in block]
        frames = [re.fullmatch(r"#\d+ +\S+ at (.*):(\d+)", line) for line in lines]
        seen = 0
        for index, frame in enumerate(frames):
            if frame and frame.group(1) == str(sample):
                seen += 1
                source = text[int(frame.group(2)) - 1].strip()
                if source:
                    assert lines[index + 1] == printable(source, 160), f"{role}: {lines[index]}"
        assert seen, role


def test_source_that_changed_or_is_gone(hang: Hang) -> None:
    expected = {
        ("module_that_stays", "stays.py"): "go()  # lasting",
        # that it was another one cannot be known; it is shown like any other
        ("module_that_changes", "changes.py"): "nothing = 'of this has run'",
        ("module_that_is_binary", "binary.py"): r"\x00\x1b[2J" + 2 * "\N{REPLACEMENT CHARACTER}",
        ("module_that_shrinks", "shrinks.py"): None,
        ("module_that_vanishes", "vanishes.py"): None,
        ("module_that_is_a_pipe", "pipe.py"): None,
        ("module_that_is_a_folder", "folder.py"): None,
        ("module_in_archive", "archive.zip/zipped.py"): None,
    }
    modules = hang.directory / "modules"
    shown = {(role, file): hang.shown(role, str(modules / file)) for role, file in expected}
    assert shown == {key: (6, text) for key, text in expected.items()}


def test_source_that_never_was(hang: Hang) -> None:
    assert hang.shown("module_without_source", "/nowhere/compiled.py") == (6, None)
    assert hang.shown("executed", "<made up>") == (6, None)


def test_strange_names_cannot_harm_a_terminal(hang: Hang) -> None:
    text = hang.session.outputs[1]
    assert "\x1b" not in text
    assert r"<a\x1b[31m\x0a\u202eb>:4" in text
    assert "функция at /tmp/каталог/файл.py:4" in text
    assert "größe at /tmp/naïve/Größe.py:4" in text
