"""Libraries that GDB does not find, or with code in unusual sections: the mappings show their addresses."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gdbext.launcher.snapshots.options import Options, Target
from gdbext.launcher.snapshots.snapshot import take_snapshot
from tests.support import cores, gdb_session, samples
from tests.support.samples import Sample

_FLAGS = ("-O2", "-std=gnu11", "-Wall", "-Wextra")
#: Calls in the library, innermost first.
CALLS = ["placed_inner", "placed_outer", "placed_enter"]
TARGETS = ("live", "gcore", "core")


@contextlib.contextmanager
def placed(directory: Path, *, stripped: bool = False) -> Iterator[tuple[Sample, Path]]:
    """The sample and its library."""
    program = samples.compiled("placed", "placed.c", _FLAGS, ("-ldl",), strip=False)
    library = samples.compiled("stripped-libplaced.so" if stripped else "libplaced.so", "placed.c",
                               (*_FLAGS, "-DPLUGIN", "-shared", "-fPIC"), strip=stripped)
    plugins = directory / "plugins"
    plugins.mkdir(parents=True)
    shutil.copy(library, plugins / "libplaced.so")
    with samples.running([program], directory) as sample:
        yield sample, plugins / "libplaced.so"


def seen_by_gdb(where: list[str | Path]) -> dict[str, Any]:
    return gdb_session.batch(where, ["py-threads-locks --json"]).document()


def seen_by_launcher(where: list[str | Path]) -> dict[str, Any]:
    target = Target(pid=int(str(where[1]))) if where[0] == "-p" else Target(core=Path(where[1]))
    seen = take_snapshot(target, Options(gdb=gdb_session.executable(), timeout=gdb_session.TIMEOUT))
    assert seen.document is not None, seen.problem
    return seen.document


def frames(document: dict[str, Any]) -> list[tuple[str | None, str | None]]:
    """The function and file of the frames between the wait and the program's start."""
    (thread,) = document["threads"]
    found = [(frame["function"], frame["module"]) for frame in thread["stack"]]
    names = [function for function, _ in found]
    return found[names.index("wait_for_byte") + 1:names.index("main")]


@pytest.mark.parametrize("seen", [seen_by_gdb, seen_by_launcher], ids=["gdb", "launcher"])
@pytest.mark.parametrize("stripped", [False, True], ids=["symbols", "stripped"])
@pytest.mark.parametrize("target", TARGETS)
def test_library_with_a_relative_name(target: str, stripped: bool, seen: Any, tmp_path: Path) -> None:
    with placed(tmp_path / "run", stripped=stripped) as (sample, _), \
            cores.place(sample, sample.executable, target) as where:
        document = seen(where)
    assert frames(document) == [(name, "libplaced.so") for name in CALLS]
    assert document["problems"] == []


@pytest.mark.parametrize("target", TARGETS)
def test_code_in_an_unusual_section_of_a_known_library(target: str, tmp_path: Path) -> None:
    with placed(tmp_path / "run") as (sample, library), cores.place(sample, sample.executable, target) as where:
        session = gdb_session.batch(["-iex", f"set solib-search-path {library.parent}", *where],
                                    ["info sharedlibrary", "py-threads-locks --json"])
    assert str(library) in session.outputs[0]
    assert frames(session.document(1)) == [(name, "libplaced.so") for name in CALLS]
    assert session.document(1)["problems"] == []


def test_removed_library(tmp_path: Path) -> None:
    """Its code and frame descriptions are in memory, but its symbol table is not."""
    with placed(tmp_path / "run") as (sample, library):
        library.unlink()
        document = seen_by_gdb(["-p", str(sample.pid)])
    assert frames(document) == [(None, "libplaced.so (deleted)")] * len(CALLS)


def test_replaced_library(tmp_path: Path) -> None:
    """The file at the path differs from the mapped one, so its symbols are not used."""
    with placed(tmp_path / "run") as (sample, library):
        other = library.with_name("other")
        shutil.copy(sample.executable, other)
        other.rename(library)
        document = seen_by_gdb(["-p", str(sample.pid)])
    assert [function for function, _ in frames(document)] == [None] * len(CALLS)


def test_core_without_the_library(tmp_path: Path) -> None:
    """Only then is the library's file reported as missing; its callers are not guessed."""
    with placed(tmp_path / "run") as (sample, library):
        core = cores.kernel_core(sample)
        library.unlink()
        document = seen_by_gdb([sample.executable, core])
    (thread,) = document["threads"]
    assert [frame["function"] for frame in thread["stack"]][-2:] == ["wait_for_byte", None]
    assert [problem["why"] for problem in document["problems"]] == [
        "its native stack beyond libplaced.so, which is missing"]
