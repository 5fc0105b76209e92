"""Functions, files and lines of Python frames are those of CPython, for every construct of the language."""

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

#: A core is tested with one interpreter, because frames are read from memory there too.
CORE_OF = f"{interpreters.ANY}-stripped"
CASES = (
    # line tables are read from memory: symbols affect only the native frames
    *((name, "live") for name in (*interpreters.NAMES, *interpreters.ROOT_PYTHONS)
      if combinations.LONG or not name.endswith("-stripped")),
    # line tables without columns, no assertions
    (interpreters.ANY, "terse"),
    (CORE_OF, "core"),
)
TERSE = ("-OO", "-X", "no_debug_ranges")
COMMANDS = ("py-threads-locks --json", "py-threads-locks", "py-deadlocks")

Row = tuple[str, str, "int | None", str]


@dataclass(frozen=True)
class Hang:
    """A program with many hung threads, and its report."""

    truth: Truth
    directory: Path
    has_qualified_names: bool
    session: gdb_session.Result

    @property
    def report(self) -> Report:
        """`py-threads-locks --json`."""
        return Report(self.session.document(0), self.truth)

    def blocks(self) -> dict[str, list[str]]:
        """The lines of `py-threads-locks` below each thread's heading, by thread name."""
        found: dict[str, list[str]] = {}
        for block in re.split(r"^(?=Thread \d+ \(LWP)", self.session.outputs[1], flags=re.MULTILINE)[1:]:
            heading, *lines = block.splitlines()
            name = re.search(r'"(.*?)"', heading)
            assert name, heading
            found[name.group(1)] = lines
        return found

    def shown(self, role: str, file: str) -> tuple[int, str | None]:
        """The line number of the first frame of a file in a thread's text, and the source line below it."""
        lines = [line.strip() for line in self.blocks()[role]]
        for index, line in enumerate(lines):
            frame = re.fullmatch(rf"#\d+ .* at {re.escape(file)}:(\d+)", line)
            if frame:
                below = lines[index + 1] if index + 1 < len(lines) else "#"
                return int(frame.group(1)), None if below.startswith("#") else below
        raise AssertionError(f"no frame of {file} in {lines}")


@pytest.fixture(scope="module", params=CASES, ids=["-".join(case) for case in CASES])
def hang(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hang]:
    """One session with every command; each test below checks a part of it."""
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
        # not the sample's directory, because relative names are not relative to this one
        session = gdb_session.batch(where, COMMANDS, symbols=symbols, directory=directory.parent, gdb=gdb)
        (runtime,) = session.document(0)["runtimes"]
        version = tuple(int(part) for part in runtime["version"].split("."))
        yield Hang(sample.truth, directory, version >= (3, 11), session)
    if kind == "core":
        Path(where[1]).unlink()


def cut(text: str) -> str:
    """A string as gdbext reads it: truncated, and without characters that cannot be encoded."""
    text = re.sub("[\ud800-\udfff]", "\N{REPLACEMENT CHARACTER}", text)
    return text if len(text) <= MAX_STRING else f"{text[:MAX_STRING]}..."


def test_no_command_fails(hang: Hang) -> None:
    assert hang.session.status == 0
    for command in ("py-threads-locks", "py-deadlocks"):
        assert hang.session.error_lines(command) == []
    assert "Traceback" not in hang.session.stderr
    document = hang.report.document
    assert document["problems"] == []
    assert document["deadlocks"] == []
    assert document["verdict"]["ends_by_itself"] is not False


def test_frames_have_the_lines_of_cpython(hang: Hang) -> None:
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


def test_function_interrupted_at_its_beginning(hang: Hang) -> None:
    """The sample reached the state it was written for; the test above checks that gdbext agrees."""
    handler, interrupted = hang.truth.threads["main"].stack[:2]
    assert handler[0] == "on_signal"
    source = (samples.SOURCES / "lines.py").read_text("utf-8").splitlines()
    assert interrupted[2] is not None
    assert source[interrupted[2] - 1] == "def interrupted("


def test_qualified_names_are_recorded_since_3_11(hang: Hang) -> None:
    recorded = {name for thread in hang.truth.threads.values() for name in thread.qualified_names}
    assert hang.has_qualified_names == ("Fluent.run" in recorded)


def test_python_frames_are_between_native_ones(hang: Hang) -> None:
    report = hang.report
    for role in hang.truth.threads:
        stack = report.thread(role)["stack"]
        assert stack[0]["language"] == "native", role
        assert "python" in {frame["language"] for frame in stack}, role


def test_source_lines(hang: Hang) -> None:
    """The source line shown is the one that runs, if the file is the one that was loaded."""
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


def test_source_that_changed_or_was_removed(hang: Hang) -> None:
    expected = {
        ("module_that_stays", "stays.py"): "go()  # lasting",
        # the change cannot be detected, so the line is shown like any other
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


def test_source_that_never_existed(hang: Hang) -> None:
    assert hang.shown("module_without_source", "/nowhere/compiled.py") == (6, None)
    assert hang.shown("executed", "<made up>") == (6, None)


def test_control_characters_in_names_are_escaped(hang: Hang) -> None:
    text = hang.session.outputs[1]
    assert "\x1b" not in text
    assert r"<a\x1b[31m\x0a\u202eb>:4" in text
    assert "функция at /tmp/каталог/файл.py:4" in text
    assert "größe at /tmp/naïve/Größe.py:4" in text
