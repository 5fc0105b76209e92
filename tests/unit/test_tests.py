"""How tests/ itself is built: who imports whom, what has a test file, which combinations run at each commit."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import combinations, interpreters, samples

TESTS = Path(__file__).resolve().parent.parent
TARGETS = ("live", "gcore", "kernel-core")
#: A test module's name; only a file that has one is parsed.
_OTHER_TEST = re.compile(r"(?<!def )\b(?:test_|conftest)")


def imported_modules(source: str) -> Iterator[str]:
    """Every name that a module imports, `from x import y` as ``x.y``, with the dots of a relative import."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{'.' * node.level}{node.module or ''}.{alias.name}" for alias in node.names)


def imported_tests(source: str) -> list[str]:
    """The names of test modules among these; pytest loads them, and conftest.py, by itself."""
    return [name for name in imported_modules(source)
            if any(part.startswith("test_") or part == "conftest" for part in name.split("."))]


def test_no_test_is_imported() -> None:
    importing = {str(path.relative_to(TESTS)): names for path in sorted(TESTS.rglob("*.py"))
                 if _OTHER_TEST.search(text := path.read_text(encoding="utf-8")) and (names := imported_tests(text))}
    assert importing == {}, "what several tests use belongs in tests/support"


def test_imports_of_tests_are_seen_in_every_form() -> None:
    forms = ("import tests.unit.test_record", "from tests.unit import test_record", "from . import test_record",
             "from tests.unit.test_record import DATA", "def work():\n    from tests import conftest")
    assert all(len(imported_tests(form)) == 1 for form in forms)
    assert imported_tests("from tests.support import samples\nimport pytest") == []


def test_a_covering_part_has_every_lock_and_target_with_every_interpreter() -> None:
    names, variants = interpreters.MAIN_NAMES, samples.RAPIDS_VARIANTS
    cases = combinations.covering(names, variants, TARGETS)
    assert len(cases) == len(names) * len(variants)
    assert {case[:2] for case in cases} == {(name, variant) for name in names for variant in variants}
    assert {case[::2] for case in cases} == {(name, target) for name in names for target in TARGETS}
    # and each lock is seen on each target, with interpreters that have symbols and with some that have none
    for stripped in (True, False):
        assert {case[1:] for case in cases if case[0].endswith("-stripped") == stripped} == {
            (variant, target) for variant in variants for target in TARGETS}


#: Tests in tests/unit of more than one module, and what they are of.
ACROSS = {
    "test_documents.py": "docs/reading-a-report.md",
    "test_examples.py": "README.md and docs/, and tests/support/examples.py, which makes their output",
    "test_guarded_stages.py": "snapshot.py and what it calls, each stage with a mistake",
    "test_layers.py": "imports of the whole package",
    "test_processor.py": "names of registers, instructions and system calls outside arch/",
    "test_pyproject.py": "pyproject.toml and the data files of gdbext/",
    "test_sentences.py": "sentences in render/ and commands/",
    "test_support_matrix.py": "docs/support.md",
    "test_tables_serve_decoders.py": "all decoders with all tables",
    "test_tests.py": "tests/",
    "test_words.py": "all texts of the project",
    "test_verdicts.py": "what all renderers say of one report",
    "layout/test_micro_versions.py": "tables and runtimes of neighbouring versions",
    "launcher/test_core_files.py": "snapshots/cores.py and snapshots/elf.py with the same made-up files",
    "launcher/test_surroundings.py": "finding.py, rights.py, containers.py, doctor.py and install.py on one host",
    "render/test_html_target.py": "render/templates/target.html.j2",
    "render/test_schema.py": "docs/gdbext-1.schema.json and docs/json.md",
}
#: Rooms in which each module has its own test file.
ROOMS = ("crash", "holders", "proofs", "proofs/flow", "stacks", "tasks", "threads", "verdict", "waits")


def subjects(path: Path) -> list[Path]:
    """The files or folders, one of which a test file of tests/unit is named after: a module, a package, a script."""
    folder, name = path.parent.relative_to(TESTS / "unit"), path.stem[len("test_"):]
    home = TESTS.parent if folder.parts[:1] == ("scripts",) else TESTS.parent / "gdbext"
    own = home / folder
    return [own / f"{name}.py", own / name, *([own / "__init__.py"] if name == own.name else [])]


def test_every_file_of_unit_tests_is_named_after_what_it_tests() -> None:
    paths = sorted((TESTS / "unit").rglob("test_*.py"))
    named = {str(path.relative_to(TESTS / "unit")) for path in paths if any(map(Path.exists, subjects(path)))}
    others = {str(path.relative_to(TESTS / "unit")) for path in paths} - named
    assert others == ACROSS.keys(), "a test file is called test_MODULE.py; ACROSS lists those of several modules"


def test_every_module_of_an_analysis_has_its_test_file() -> None:
    modules = [(room, path.name) for room in ROOMS for path in sorted((TESTS.parent / "gdbext" / room).glob("*.py"))
               if path.name != "__init__.py"]
    without = [f"{room}/{name}" for room, name in modules if not (TESTS / "unit" / room / f"test_{name}").exists()]
    assert without == []


#: The samples of which a test compares the report made without GDB with GDB's, by the file that does it. Those of
#: tests/precision/programs are all compared, by test_precision.py.
COMPARED = {
    "support/without_gdb.py": (
        *("abba.c", "accounts.py", "compiled.c", "drv.c", "embed.c", "freethreaded.cc", "freethreaded.py"),
        *("eventlet_waits.py", "gevent_waits.py", "greenlets.py", "inlined.cc", "openmp.c", "pylocks.py", "rapids.py"),
        *("subinterpreters.c", "tasks.py", "values.py"),
    ),
    "gdb/test_direct.py": (
        *("crash.c", "crash.cc", "crash.py", "crash.rs", "crash_embed.c", "crash_handles.cpp", "crash_tsan.cc"),
        *("healthy.c", "healthy.py", "lines.py"),
    ),
    "gdb/test_acquires.py": ("acquires.py",),
    "gdb/test_bad_input.py": ("impostor.c",),
    "gdb/test_barrier.py": ("gather.c",),
    "gdb/test_blocked.py": ("blocked.c",),
    "gdb/test_boundaries.py": ("boundaries.c", "boundaries.py", "boundaries_cython.pyx", "boundaries_nanobind.cpp",
                               "boundaries_pybind11.cpp"),
    "gdb/test_cython_openmp.py": ("cython_openmp",),
    "gdb/test_file_users.py": ("file_users.py",),
    "gdb/test_handlers.py": ("handlers.c",),
    "gdb/test_library_locks.py": (
        *("absl_locks.cc", "allocator.c", "boost_locks.cc", "fast_rlocks.py", "java_locks.py"),
        *("locks_parking_lot.rs", "numba_queue.py", "pool_calls.py", "pool_calls.rs", "qt_lockers.py", "qt_locks.cc"),
        *("rust_pools.rs", "tbb_waits.cc"),
    ),
    "gdb/test_gpu.py": ("cuda.c",),
    "gdb/test_lock_kinds.py": ("locks.c", "locks.cc", "locks.rs"),
    "gdb/test_owners.py": ("owners.c",),
    "gdb/test_runtime_states.py": ("finalising.py", "states.c"),
    "gdb/test_suspended.py": ("suspended.py",),
}
#: Other files of tests/samples, and why no report on them is compared.
NOT_COMPARED = {
    "arm64_threads.py": "it runs in an emulated machine, which the tests do not debug",
    "musl_locks.c": "GDB finds no stacks of musl without its debug symbols",
    "arm64_crashes.c": "it runs in an emulated machine, which the tests do not debug",
    **dict.fromkeys(("sample.h", "scenes.h", "stage.rs"), "a part of other samples"),
    "busy.c": "its threads run, so no two reports are equal",
    **dict.fromkeys(("cut_short.c", "ended_calls.c"),
                    "GDB ends system calls by stopping their threads, and the report shows that"),
    **dict.fromkeys(("cluster.py", "engine.py", "processes.py", "ranks.cc", "ranks.py", "ranks_torch.py"),
                    "several processes, whose reports the launcher makes one by one"),
    **dict.fromkeys(("hangs.py", "hung_tests.py"), "started by a verb of the launcher or by pytest"),
    "jit_list.c": "GDB cannot attach to it",
    "hot.py": "JIT code of Python has no frame descriptions, so only GDB unwinds it",
    **dict.fromkeys(("messages.c", "messages.cc", "messages.rs"), "the test calls decoders, and makes no report"),
    "placed.c": "files are missing or moved, and GDB finds them in other ways",
    "vfork.c": "GDB cannot stop a thread that waits in vfork",
    "twice.py": "the example of a page, which is made with GDB",
}


def test_report_on_every_sample_is_compared_with_that_of_gdb() -> None:
    files = {path.name for path in (TESTS / "samples").iterdir() if path.name != "__pycache__"}
    compared = [sample for listed in COMPARED.values() for sample in listed]
    assert sorted([*compared, *NOT_COMPARED]) == sorted(files), "a sample that is new belongs into one of the tables"


@pytest.mark.parametrize("file", COMPARED)
def test_file_that_compares_reports_does_so(file: str) -> None:
    text = (TESTS / file).read_text(encoding="utf-8")
    assert any(call in text for call in ("differential.", "unexplained(", "assert_nothing_added(")), file
