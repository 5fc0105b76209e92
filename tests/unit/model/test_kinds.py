"""The table of lock kinds is complete, and it is the only place that says what a kind means."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import gdbext
from gdbext.library import Kind
from gdbext.model.kinds import all_kinds, kind_of, name_of_kind

HOME = Path(gdbext.__file__).resolve().parent
DOCS = HOME.parent / "docs"
KINDS = all_kinds()
#: Rooms that ask the table what a kind means and do not name kinds.
ROOMS = ("threads", "stacks", "verdict", "crash", "schema", "render", "holders", "commands", "launcher", "debugger",
         "processes")
#: Module and word, where a string is a kind's word and means something else: a member of JSON, a system call.
OTHER_MEANINGS = {("holders/pool_results.py", "futex"), ("processes/waits.py", "futex"), ("snapshot.py", "futex")}


def test_each_kind_of_the_schema_has_a_row() -> None:
    schema = json.loads((DOCS / "gdbext-1.schema.json").read_text(encoding="utf-8"))
    assert sorted(KINDS) == sorted(schema["$defs"]["lock_kind"]["enum"])


def test_each_kind_of_a_lock_that_is_made_has_a_row() -> None:
    made: set[object] = set()
    for path in sorted(HOME.rglob("*.py")):
        nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        # the first argument is a kind, or a constant of the module
        kinds = [node.args[0] for node in nodes if isinstance(node, ast.Call) and node.args
                 and ast.unparse(node.func) in ("SeenLock", "without_owner", "PyLock")]
        made |= {kind.value for kind in kinds if isinstance(kind, ast.Constant)}
        names = {kind.id for kind in kinds if isinstance(kind, ast.Name)}
        made |= {node.value.value for node in nodes if isinstance(node, ast.AnnAssign)
                 and isinstance(node.value, ast.Constant) and ast.unparse(node.target) in names}
    assert len(made) > 40
    assert made <= KINDS.keys()


def test_each_kind_is_documented() -> None:
    table = (DOCS / "json.md").read_text(encoding="utf-8").partition("## Kinds of locks\n")[2].partition("\n# ")[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    assert sorted(KINDS) == sorted(word for row in rows for word in re.findall(r"`([a-z-]+)`", row))


@pytest.mark.parametrize(("kind", "state", "own", "shared"), [
    ("py-lock", "locked", "threading.Lock", "multiprocessing.Lock"),
    ("py-event", None, "threading.Event", "multiprocessing.Event"),
    ("py-condition", "not all tasks are done", "queue.Queue", "multiprocessing.JoinableQueue"),
    ("mutex", "locked", "pthread mutex", "pthread mutex")])
def test_name_of_a_shared_lock_of_python_is_that_of_multiprocessing(kind: str, state: str | None, own: str,
                                                                    shared: str) -> None:
    assert (name_of_kind(kind, state), name_of_kind(kind, state, shared=True)) == (own, shared)


def test_rows_do_not_contradict_themselves() -> None:
    for name, kind in KINDS.items():
        assert not (kind.records_owner and kind.no_owner), name
        assert not (kind.wait_for == "any" and kind.records_owner), name
        assert kind.own_threads_only or not kind.passed_on, name
        assert kind.records_owner or kind.owner_offset is None, name


def test_kind_of_an_unknown_word_is_a_plain_lock() -> None:
    assert kind_of("latch") == Kind(released_by="others")


#: Tables with a row for each of some kinds.
FUNCTIONS_OF_KINDS = HOME / "holders" / "pairs"


def named(path: Path) -> Iterator[str]:
    """The kinds that strings of a module name, alone or as the beginning of a lock's id."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            word, _, rest = node.value.partition(":")
            if word in KINDS and not rest.startswith(" "):
                yield word


def test_only_the_table_and_recognisers_name_kinds() -> None:
    paths = [HOME / "snapshot.py", *(path for room in ROOMS for path in sorted((HOME / room).rglob("*.py"))
                                     if FUNCTIONS_OF_KINDS not in path.parents)]
    found = {(path.relative_to(HOME).as_posix(), word) for path in paths for word in named(path)}
    assert found == OTHER_MEANINGS


def test_named_finds_kinds(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text('a = lock.kind == "mutex"\nb = {"rwlock": 8}\nc = f"thread-exit:{8:#x}"\nd = "the mutex"\n')
    assert list(named(module)) == ["mutex", "rwlock", "thread-exit"]
