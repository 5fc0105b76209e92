"""Members that moved within a minor version: the table of the same or the nearest confirmed micro is used."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gdbext.cpython import runtime as runtimes
from gdbext.cpython.runtime import PythonRuntime, find_runtimes
from gdbext.errors import GdbextError, UnknownLayout
from gdbext.layout.select import cpython_candidates
from gdbext.layout.table import Field, Layouts
from gdbext.narrate.reasons import explain
from gdbext.render.style import Style
from gdbext.render.text import TextRenderer
from gdbext.schema.write import document
from gdbext.snapshot import take_snapshot
from tests.support.fake_memory import FakeMemory
from tests.support.fake_python import FakePython
from tests.support.fake_target import FakeTarget

PTHREAD = 0x7F00_1234_5700
EXACT = ("3.9.2", "3.9.18", "3.11.2", "3.11.7", "3.13.0", "3.13.5", "3.13.18")


def versions(version: str) -> list[str]:
    """The versions of the candidates, best first."""
    return [layouts.version for layouts in cpython_candidates(version, "default", "x86_64")]


def pretend(python: FakePython, version: str) -> None:
    """Make a runtime claim another version than that of its layout."""
    major, minor, micro = (int(part) for part in version.split("."))
    if python.version_tuple >= (3, 13):
        python.memory.u64(python.runtime_address + 8, major << 24 | minor << 16 | micro << 8 | 0xF0)
    else:
        python.memory.write(python.module.sections[2].start, b"\0" + version.encode() + b"\0")


def running(version: str, claimed: str | None = None) -> FakePython:
    """A runtime with one thread, with the layout of a version."""
    python = FakePython(FakeMemory(), version)
    python.runtime()
    python.thread(python.interpreter(), PTHREAD)
    pretend(python, claimed or version)
    return python


def find(python: FakePython) -> tuple[list[PythonRuntime], list[GdbextError]]:
    return find_runtimes(python.memory, [python.module], "x86_64")


def found(python: FakePython) -> PythonRuntime:
    (runtime,), problems = find(python)
    assert problems == []
    return runtime


# -- choice of table ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", EXACT)
def test_candidates_begin_with_the_same_version(version: str) -> None:
    assert versions(version)[0] == version


@pytest.mark.parametrize("version", EXACT)
def test_same_version_is_used_without_a_note(version: str) -> None:
    runtime = found(running(version))
    assert (runtime.version, runtime.layouts.version, runtime.note) == (version, version, None)


@pytest.mark.parametrize(
    ("version", "nearest"),
    [
        ("3.9.5", "3.9.2"),
        ("3.9.10", "3.9.18"),  # equal distance: distributions backport patches of later releases
        ("3.11.4", "3.11.2"),
        ("3.11.5", "3.11.7"),
        ("3.11.15", "3.11.7"),
        ("3.12.7", "3.12.1"),
        ("3.13.1", "3.13.0"),
        ("3.13.3", "3.13.5"),
        ("3.13.9", "3.13.5"),
        ("3.13.12", "3.13.18"),
        ("3.13.99", "3.13.18"),
    ],
)
def test_nearest_micro_is_used_with_a_note(version: str, nearest: str) -> None:
    assert versions(version)[0] == nearest
    runtime = found(running(nearest, version))
    assert (runtime.version, runtime.layouts.version) == (version, nearest)
    assert runtime.note is not None
    assert version in explain(runtime.note)
    assert nearest in explain(runtime.note)


def test_candidates_are_all_micros_of_the_minor_by_distance() -> None:
    assert versions("3.13.9") == ["3.13.5", "3.13.18", "3.13.0"]
    assert versions("3.13.0") == ["3.13.0", "3.13.5", "3.13.18"]


def test_candidates_exclude_other_minors() -> None:
    for version in EXACT:
        minor = version.rpartition(".")[0]
        assert {candidate.rpartition(".")[0] for candidate in versions(version)} == {minor}


# -- members that moved between micros --------------------------------------------------------------------------------


def layouts_of(version: str) -> Layouts:
    return next(cpython_candidates(version, "default", "x86_64"))


def test_stop_the_world_state_moved_within_3_13() -> None:
    """Words were added to the thread state and the runtime between 3.13.5 and 3.13.15."""
    offsets = {
        version: layouts_of(version)["_PyRuntimeState"].offset("stoptheworld")
        for version in ("3.13.0", "3.13.5", "3.13.18")
    }
    assert offsets == {"3.13.0": 10336, "3.13.5": 10336, "3.13.18": 10360}
    sizes = [layouts_of(version)["PyThreadState"].size for version in ("3.13.0", "3.13.5", "3.13.18")]
    assert sizes == [304, 304, 312]


def test_no_member_moved_between_3_11_2_and_3_11_7() -> None:
    older, newer = layouts_of("3.11.2"), layouts_of("3.11.7")
    assert older.structs == newer.structs


# -- the nearest confirmed table ----------------------------------------------------------------------------


def test_nearest_table_when_memory_contradicts_it_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    """A member may move between two micro versions with tables."""
    python = FakePython(FakeMemory(), "3.13.18")
    python.runtime()
    interpreter = python.interpreter()
    python.take_gil(interpreter, python.thread(interpreter, PTHREAD))
    pretend(python, "3.13.9")
    # debug offsets would correct other members, but do not include the interval; an address is not a valid interval
    gil = layouts_of("3.13.5")["_gil_runtime_state"]["interval"]

    def candidates(version: str, build: str, machine: str) -> Iterator[Layouts]:
        for layouts in cpython_candidates(version, build, machine):
            if layouts.version == "3.13.5":
                moved = Field(gil.offset + 8, gil.size, gil.signed)
                yield layouts.replaced(layouts.source, {"_gil_runtime_state": {"interval": moved}}, {})
            else:
                yield layouts

    monkeypatch.setattr(runtimes, "cpython_candidates", candidates)
    runtime = found(python)
    assert runtime.layouts.version == "3.13.18"
    assert "3.13.18" in str(runtime.note)
    assert "3.13.5" not in str(runtime.note)


@pytest.mark.parametrize(("laid_out", "version", "nearest"), [("3.12.1", "3.12.7", "3.12.1"),
                                                              ("3.13.5", "3.13.9", "3.13.5")])
def test_report_names_the_substitute_table(laid_out: str, version: str, nearest: str) -> None:
    target = FakeTarget()
    main = target.thread()
    python = FakePython(target.ram, laid_out)
    target.loaded.append(python.runtime())
    python.thread(python.interpreter(), main.pthread)
    pretend(python, version)
    report = take_snapshot(target).report(lambda thread: False)
    assert report.problems == ()
    assert report.no_verdict is None
    notes = [note for note in map(explain, report.notes) if version in note]
    assert len(notes) == 1
    assert nearest in notes[0]
    assert document(report)["notes"] == [explain(note) for note in report.notes]
    assert notes[0] in TextRenderer(report, Style(False), lambda file, line: None).deadlocks()


# -- future versions
# -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [0x031000A1, 0x031000F0, 0x031002F0, 0x036300F0, 0x04000000, 0x040000F0])
def test_future_version_is_refused(number: int) -> None:
    """Its structures would be guesses, even if memory seems to confirm them."""
    python = running("3.15.2")
    python.memory.u64(python.runtime_address + 8, number)
    refused, (problem,) = find(python)
    assert refused == []
    if number < 0x04000000:
        assert f"{number >> 24}.{number >> 16 & 0xFF}.{number >> 8 & 0xFF}" in str(problem)
        assert "3.15" in str(problem), "it says what is known"


@pytest.mark.parametrize("version", ["3.5.9", "3.16.0", "4.0.0"])
def test_unknown_minor_is_refused(version: str) -> None:
    with pytest.raises(UnknownLayout, match="known: 3.6, "):
        versions(version)
