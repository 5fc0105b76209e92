"""How tests/ itself is built: who imports whom, what has a test file, which combinations run at each commit."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.support import combinations, interpreters, samples

TESTS = Path(__file__).resolve().parent.parent
TARGETS = ("live", "gcore", "kernel-core")


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
                 if (names := imported_tests(path.read_text(encoding="utf-8")))}
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
