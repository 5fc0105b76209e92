"""The table of lock kinds is complete."""

from __future__ import annotations

import json
import re
import typing
from pathlib import Path

import gdbext
from gdbext.model.kinds import KINDS, Kind, LockKind, id_of_lock, kind_of, kind_of_id

HOME = Path(gdbext.__file__).resolve().parent
DOCS = HOME.parent / "docs"


def test_each_kind_of_the_schema_has_a_row() -> None:
    schema = json.loads((DOCS / "gdbext-1.schema.json").read_text(encoding="utf-8"))
    assert sorted(KINDS) == sorted(schema["$defs"]["lock_kind"]["enum"])


def test_each_kind_of_the_type_has_a_row() -> None:
    assert sorted(KINDS) == sorted(typing.get_args(LockKind))


def test_each_kind_is_documented() -> None:
    table = (DOCS / "json.md").read_text(encoding="utf-8").partition("## Kinds of locks\n")[2].partition("\n# ")[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    assert sorted(KINDS) == sorted(word for row in rows for word in re.findall(r"`([a-z-]+)`", row))


def test_rows_do_not_contradict_themselves() -> None:
    for name, kind in KINDS.items():
        assert not (kind.records_owner and kind.no_owner), name
        assert not (kind.wait_for == "any" and kind.records_owner), name
        assert kind.own_threads_only or not kind.passed_on, name
        assert kind.records_owner or kind.owner_offset is None, name
        assert not kind.outside or not kind.own_threads_only, name


def test_kind_of_an_unknown_word_is_a_plain_lock() -> None:
    assert kind_of("latch") == Kind()
    assert kind_of_id("latch:0x10") == Kind()


def test_kind_of_id_is_the_kind_that_made_it() -> None:
    for name, kind in KINDS.items():
        assert kind_of_id(id_of_lock(name, 0x7F10)) is kind
