"""The room of the libraries: each describes itself, no other room names one, and each can be left out."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import gdbext
from gdbext.libraries import _FOLDERS, LIBRARIES
from gdbext.library import Library
from gdbext.locks.library_parts import LibraryWaits, waits_of
from gdbext.model.kinds import KINDS, kind_of
from tests.support.contexts import context_of
from tests.support.fake_target import FakeTarget

HOME = Path(gdbext.__file__).resolve().parent
#: The rooms that know no library by its name.
ROOMS = ("holders", "locks", "model", "narrate", "snapshot.py", "stacks", "threads", "verdict", "waits")
NAMES = re.compile(
    r"(?i)\b(?:lib)?(?:absl|abseil|boost|cuda|gpu|hotspot|i?omp5?|java\w*|jvm|kmpc?|numba|openmp|gomp|parking.?lot|qt|rayon"
    r"|rust\w*|tbb|onetbb|tcmalloc|tokio)(?![a-z])")
#: Where a name remains, and why.
EXCEPTIONS = {
    # functions on stacks, whether or not a thread waits in them: those of run-time libraries, languages, compilers
    "narrate/frames.py": {"gomp", "iomp5", "omp"},
    "threads/site.py": {"libgomp", "libiomp5", "libomp"},
    "stacks/boundaries.py": {"rust", "numba", "gomp"},
    # the messages of a program that has died
    "model/crash_reasons.py": {"rust"},
    "narrate/crash_reasons.py": {"rust"},
    # a verdict is a function of the report alone, and these waits count as work
    "verdict/scene.py": {"cuda", "gpu"},
}


def described() -> list[object]:
    return [pytest.param(library, id=library.folder) for library in LIBRARIES]


@pytest.mark.parametrize("library", described())
def test_modules_of_a_library_provide_what_it_says(library: Library) -> None:
    assert HOME / "libraries" / library.folder / "__init__.py" == Path(
        str(import_module(f"gdbext.libraries.{library.folder}").__file__))
    for name in library.modules():
        import_module(name)
    files = {path.name for path in (HOME / "libraries" / library.folder).iterdir()}
    assert "waits.py" in files
    assert ("holders.py" in files, "pairs.py" in files) == (bool(library.finds_holders), bool(library.proven))
    if library.proven:
        assert import_module(f"gdbext.libraries.{library.folder}.pairs").PAIRS.keys() == {*library.proven}
    assert {*library.finds_holders, *library.proven} <= library.kinds.keys()
    assert {*library.idle} <= library.words.keys()
    assert isinstance(waits_of(library)(context_of(FakeTarget())), LibraryWaits)


def test_folders_are_those_of_the_list() -> None:
    folders = {path.parent.name for path in (HOME / "libraries").glob("*/__init__.py")}
    assert folders == {*_FOLDERS} == {library.folder for library in LIBRARIES}


def test_libraries_have_no_kind_in_common() -> None:
    kinds = [*KINDS, *(kind for library in LIBRARIES for kind in library.kinds)]
    assert len(kinds) == len(set(kinds))


def test_library_is_loaded_if_the_process_has_one_of_its_files() -> None:
    target = FakeTarget()
    target.thread()
    loaded = {type(waits).__module__ for waits in context_of(target).libraries}
    assert loaded == {f"gdbext.libraries.{library.folder}.waits" for library in LIBRARIES if library.files is None}
    assert [library.folder for library in LIBRARIES if library.has("libtbb.so.12")] == ["tbb"]


# -- other rooms ----------------------------------------------------------------------------------------------

def texts(path: Path) -> Iterator[str]:
    """The names and the strings in a module that are no docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value
        elif isinstance(node, (ast.Name, ast.Attribute, ast.FunctionDef, ast.ClassDef, ast.arg, ast.alias)):
            name = getattr(node, "id", None) or getattr(node, "attr", None) or getattr(node, "name", None) or getattr(
                node, "arg", "")
            yield re.sub(r"_|(?<=[a-z])(?=[A-Z])", " ", str(name))


def test_no_other_room_names_a_library() -> None:
    found: dict[str, set[str]] = {}
    for room in ROOMS:
        for path in [HOME / room] if room.endswith(".py") else sorted((HOME / room).rglob("*.py")):
            for text in texts(path):
                found.setdefault(path.relative_to(HOME).as_posix(), set()).update(
                    match[0].lower() for match in NAMES.finditer(text))
    assert {path: names for path, names in found.items() if names} == EXCEPTIONS


def test_names_are_found(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text('"""Of Qt."""\nfrom gdbext import qt_locks\na = tbb.find("libomp.so")\n# Java\nb = "rusty"\n')
    assert {match[0] for text in texts(module) for match in NAMES.finditer(text)} == {"qt", "tbb", "libomp", "rusty"}


# -- a program without a library ------------------------------------------------------------------------------

_REPORT = """
import sys
sys.path[:0] = sys.argv[1:3]
import gdbext
from gdbext.libraries import LIBRARIES
from gdbext.locks.library_parts import waits_of
from gdbext.model.kinds import all_kinds, kind_of
from gdbext.narrate.reasons import explain
from gdbext.model.reasons import because
from gdbext.snapshot import take_snapshot
from tests.support.contexts import context_of
from tests.support.fake_target import FakeTarget
from tests.support.snapshots import abba

assert gdbext.__file__.startswith(sys.argv[1])
target = FakeTarget()
abba(target)
waits = target.thread()
target.waits(waits, target.mutex(0), 7, 0x80)
report = take_snapshot(target).judged_report(lambda thread: True)
assert [deadlock.threads for deadlock in report.deadlocks] == [(1, 2)]
lock, = (lock for lock in report.locks if lock.kind == "futex")
assert "records no owner" in explain(lock.why)
for library in LIBRARIES:
    waits_of(library)(context_of(target))
print(*[library.folder for library in LIBRARIES], *all_kinds())
"""


@pytest.mark.parametrize("library", described())
def test_program_without_a_library_works_without_it(library: Library, tmp_path: Path) -> None:
    shutil.copytree(HOME, tmp_path / "gdbext", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.rmtree(tmp_path / "gdbext" / "libraries" / library.folder)
    index = tmp_path / "gdbext" / "libraries" / "__init__.py"
    text = index.read_text(encoding="utf-8")
    line = f'    "{library.folder}",\n'
    assert text.count(line) == 1, "a library is one line"
    index.write_text(text.replace(line, ""), encoding="utf-8")
    done = subprocess.run([sys.executable, "-c", _REPORT, str(tmp_path), str(HOME.parent)], capture_output=True,
                          text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    said = done.stdout.split()
    assert {*said} == {*_FOLDERS, *KINDS, *(kind for each in LIBRARIES for kind in each.kinds)} - {
        library.folder, *library.kinds}
    assert all(kind_of(kind) is row for kind, row in library.kinds.items())
