"""docs/gdbext-1.schema.json describes exactly the documents of `schema.write`, and docs/json.md their kinds."""

from __future__ import annotations

import contextlib
import copy
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from gdbext.commands.every import COMMANDS
from gdbext.schema.write import ALL_PARTS, PARTS
from tests.support.documents import as_json
from tests.support.fake_report import (
    asyncio,
    crashed,
    gil_deadlock,
    healthy,
    hostile,
    inferred_deadlock,
    left_behind,
    orphaned,
    world_that_does_not_stop,
)
from tests.support.gdb_session import SCHEMA, validator, violations

Json = dict[str, Any]

SCHEMA_ITSELF: Json = json.loads(SCHEMA.read_text(encoding="utf-8"))
DEFINITIONS: Json = SCHEMA_ITSELF["$defs"]
#: Objects with members, by name.
NOUNS: Json = {"document": SCHEMA_ITSELF, **{name.replace("_", " "): noun for name, noun in DEFINITIONS.items()
                                             if "properties" in noun}}
PAGE = SCHEMA.with_name("json.md").read_text(encoding="utf-8")
READING = SCHEMA.with_name("reading-a-report.md").read_text(encoding="utf-8")
#: Members whose name is all that there is to say, or whose type is described.
PLAIN = {
    "awaits", "backend", "description", "edges", "evidence", "fault", "file", "finished", "fixed_in", "function",
    "groups", "holds", "identity", "line", "local_rank", "local_size", "lock", "mode", "name", "number", "pc", "pid",
    "rank", "recursion", "requester", "shape", "size", "stop_the_world", "taken_at", "text", "thread", "title", "type",
    "uid", "url", "value", "waiter", "waiters", "why", "workaround"}


REPORTS = {"gil": gil_deadlock, "inferred": inferred_deadlock, "orphaned": orphaned, "healthy": healthy,
           "world": world_that_does_not_stop, "left behind": left_behind, "asyncio": asyncio, "crashed": crashed}
#: Members that were added later, by object: documents of older versions lack them.
LATER = {("gil", "orphan"), ("threads", "unmerged"), ("threads", "parts"), ("threads", "critical_sections"),
         ("stack", "locals"), ("taken_at", "qualified_name"), ("taken_at", "columns"), ("taken_at", "kind"),
         ("locks", "orphan_evidence"), ("locks", "foreign_owner"), ("locks", "of_object"),
         ("edges", "evidence"), ("edges", "why"), ("awaits", "kind"), ("awaits", "address"), ("awaits", "name"),
         ("crash", "parts"), ("crash", "handlers"), ("crash", "aftermath"), ("crash", "notes"),
         ("recursion", "begun_in"), ("greenlets", "waits"),
         *(("threads", name) for name in ("ended_by", "since", "polling", "at_work", "in_loop", "takes_next",
                                           "ident")),
         ("event_loops", "watched"), ("polling", "values"),
         *(("ended_by", name) for name in ("seconds", "thread", "process")), ("verdict", "greenlets"),
         *(("target", name) for name in ("command_line", "host", "time", "paused", "kept", "whole"))}
#: Reports that together contain every possible member.
RICH = ("asyncio", "world", "crashed")


def document(name: str) -> Json:
    """A document with all members."""
    made: Json = json.loads(as_json(REPORTS[name](), ALL_PARTS))
    return made


def places(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The path of each value in a document."""
    yield path
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in pairs:
        if key != "arguments":  # each reason code has its own arguments
            yield from places(inner, (*path, key))


def at(value: Any, path: tuple[str | int, ...]) -> Any:
    """The value at a path."""
    for key in path:
        value = value[key]
    return value


def is_valid(made: Json) -> bool:
    """Whether a document matches the schema; quicker than all its violations."""
    return bool(validator().is_valid(made))


@contextlib.contextmanager
def without(value: Json, path: tuple[str | int, ...]) -> Iterator[Json]:
    """The document without a member for a while: a copy for each of the thousands of members takes longer."""
    holder = at(value, path[:-1])
    members = dict(holder)
    del holder[path[-1]]
    try:
        yield value
    finally:
        holder.update(members)


def changed(value: Json, path: tuple[str | int, ...], new: object) -> Json:
    """The document with a changed value at a path."""
    made = copy.deepcopy(value)
    at(made, path[:-1])[path[-1]] = new
    return made


# -- the schema ----------------------------------------------------------------------------------------------


def test_schema_is_valid() -> None:
    Draft202012Validator.check_schema(SCHEMA_ITSELF)


@pytest.mark.parametrize("noun", NOUNS.values(), ids=NOUNS)
def test_schema_is_strict(noun: Json) -> None:
    assert noun["additionalProperties"] is False
    assert set(noun["required"]) <= set(noun["properties"])


def test_descriptions_of_objects_are_nouns() -> None:
    def objects(part: Any) -> Iterator[Any]:
        if isinstance(part, dict):
            if "object" in part.get("type", ()) and not part.keys() & {"if", "propertyNames"}:
                yield part
            for name, inner in part.items():
                yield from objects(inner) if name != "if" else ()
        elif isinstance(part, list):
            for inner in part:
                yield from objects(inner)

    assert all(any(found is noun for noun in NOUNS.values()) for found in objects(SCHEMA_ITSELF))


# -- documents -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", REPORTS)
def test_documents_match_the_schema(name: str) -> None:
    assert violations(document(name)) == []


@pytest.mark.parametrize("name", REPORTS)
def test_documents_with_hostile_names_match_the_schema(name: str) -> None:
    report = REPORTS[name]()
    made, plain = json.loads(as_json(hostile(report), ALL_PARTS)), document(name)
    # fixed words such as states
    for row, lock in zip(made["locks"], plain["locks"]):
        row["orphan"] = lock["orphan"]
    if "crash" in made:
        made["crash"].update(findings=plain["crash"]["findings"], suspects=plain["crash"]["suspects"])
        made["crash"]["fault"].update({each: plain["crash"]["fault"][each] for each in ("signal", "code", "access")})
    assert violations(made) == []


@pytest.mark.parametrize("parts", [PARTS, ("runtimes", "threads", "locks", "problems"),
                                   ("threads", "locks", "problems")])
def test_documents_with_some_members_match_the_schema(parts: tuple[str, ...]) -> None:
    assert violations(json.loads(as_json(gil_deadlock(), parts))) == []


def test_unknown_members_are_rejected() -> None:
    for name in RICH:
        made = document(name)
        for path in places(made):
            if isinstance(at(made, path), dict):
                assert not is_valid(changed(made, (*path, "unknown"), None)), (name, path)


def test_missing_required_members_are_rejected() -> None:
    of_document = set(SCHEMA_ITSELF["properties"]) - set(SCHEMA_ITSELF["required"])
    of_document -= {"event_loops", "tasks", "task_cycles"}  # all of them or none
    for name in RICH:
        made = document(name)
        for path in list(places(made)):
            if path and isinstance(path[-1], str):
                names = tuple(step for step in path if isinstance(step, str))
                may_be_absent = path[-1] in of_document if len(path) == 1 else names[-2:] in LATER
                may_be_absent = may_be_absent or path[-1].endswith(("_code", "_codes"))
                may_be_absent = may_be_absent or path[-2:-1] == ("registers",)
                with without(made, path) as less:
                    assert is_valid(less) == may_be_absent, (name, path)


def test_values_of_other_types_are_rejected() -> None:
    for name in RICH:
        made = document(name)
        for path in places(made):
            value = at(made, path)
            if path and value is not None:
                other = 4096 if isinstance(value, (str, bool)) else "0x1000"
                assert not is_valid(changed(made, path, other)), (name, path)


@pytest.mark.parametrize(("path", "value"), [
    (("schema",), "gdbext/2"),
    (("target", "kind"), "dead"),
    (("runtimes", 0, "build"), "debug"),
    (("runtimes", 0, "layout"), "guess"),
    (("runtimes", 0, "address"), "7e00"),
    (("runtimes", 0, "interpreters", 0, "gil", "state"), "locked"),
    (("runtimes", 0, "interpreters", 0, "gil", "lock"), "rwlock:0x5591e0c0"),
    (("runtimes", 0, "interpreters", 0, "gil", "waiters"), [2, None]),
    (("threads", 0, "number"), 0),
    (("threads", 0, "tstate"), "0X55D0"),
    (("threads", 0, "python_state"), "running"),
    (("threads", 0, "status"), "sleeping"),
    (("threads", 0, "syscall"), "futex(0x10)"),
    (("threads", 0, "holds", 0, "evidence"), "guessed"),
    (("threads", 0, "waits", "mode"), "write"),
    (("threads", 0, "waits", "lock"), "0x5591e0c0"),
    (("threads", 0, "waits", "timed"), 0),
    (("threads", 0, "stack", 1, "language"), "python"),
    (("threads", 0, "stack", 2, "language"), "c"),
    (("threads", 0, "stack", 2, "columns"), [4, 17]),
    (("threads", 0, "stack", 2, "kind"), "class"),
    (("locks", 0, "kind"), "seqlock"),
    (("locks", 0, "state"), "locked"),
    (("locks", 0, "kind"), "mutex"),
    (("locks", 0, "orphan"), "gone"),
    (("locks", 2, "state"), "locked"),
    (("deadlocks", 0, "threads"), []),
    (("deadlocks", 0, "edges", 0, "holder"), "2"),
    (("problems", 0, "what"), "unknown"),
    (("notes",), []),
])
def test_other_values_are_rejected(path: tuple[str | int, ...], value: object) -> None:
    made = document("gil")
    assert json.dumps(at(made, path)) != json.dumps(value)
    assert violations(changed(made, path, value))


def test_violation_names_its_place() -> None:
    (found,) = violations(changed(document("gil"), ("locks", 0, "address"), 4096))
    assert found == "$.locks[0].address: 4096 is not of type 'string'"


# -- the page that documents it ------------------------------------------------------------------------------


def section(heading: str) -> str:
    """The text below a heading of docs/json.md."""
    found = re.split(r"^#+ (.+)\n", PAGE, flags=re.MULTILINE)
    sections = {name.lower(): text for name, text in zip(found[1::2], found[2::2])}
    return sections[heading.lower()]


def rows(text: str) -> list[list[str]]:
    """The cells of all tables in a text, without headings."""
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in text.splitlines()
             if line.startswith("|")]
    return cells[2:]


@pytest.mark.parametrize("noun", NOUNS.values(), ids=NOUNS)
def test_members_are_described_except_plain_words(noun: Json) -> None:
    missing = {name for name, member in noun["properties"].items() if "description" not in member}
    assert {name for name in missing if not name.endswith(("_code", "_codes"))} <= PLAIN
    # a sentence has its code beside it
    assert all(name.rpartition("_")[0] in noun["properties"] for name in missing - PLAIN)


def test_docs_describe_each_value() -> None:
    def parts(part: Any) -> Iterator[Json]:
        if isinstance(part, dict):
            yield part
            part = list(part.values())
        for inner in part if isinstance(part, list) else ():
            yield from parts(inner)

    every = list(parts(SCHEMA_ITSELF))
    descriptions = [part["description"] for part in every if isinstance(part.get("description"), str)]
    text = " ".join((PAGE, READING, *descriptions))
    values = {value for part in every for value in (*part.get("enum", ()), part.get("const"))
              if isinstance(value, str)}
    assert {value for value in values if f"`{value}`" not in text} == set()


def test_docs_list_members_of_the_schema() -> None:
    inner = {"deadlock": "edge", "crash": "fault"}  # whose members are in parentheses
    for where, members in rows(section("members")):
        name = where.strip("`").replace("s[]", "")
        known = {*NOUNS[name]["properties"], *NOUNS[inner.get(name, name)]["properties"]}
        assert set(re.findall("`([a-z_]+)`", members)) <= known, where


def test_docs_describe_each_kind_of_lock_and_its_states() -> None:
    told = {kind: row[2] for row in rows(section("kinds of locks")) for kind in re.findall(r"`([a-z-]+)`", row[0])}
    assert set(told) == set(DEFINITIONS["lock_kind"]["enum"])
    lock = {**document("gil")["locks"][0], "id": "mutex:0x10"}
    checked = Draft202012Validator({**DEFINITIONS["lock"], "$defs": DEFINITIONS})
    for kind, states in told.items():
        found = [state for state in re.findall(r"`([^`]+)`", states) if state != " or "]
        assert found
        for state in found:
            assert checked.is_valid({**lock, "kind": kind, "state": state}), (kind, state)
        assert not checked.is_valid({**lock, "kind": kind, "state": "dim"}), kind
    both = {**lock, "kind": "descriptor", "state": "waiting to read or connecting"}
    assert checked.is_valid(both)
    assert not checked.is_valid({**both, "state": "waiting to read connecting"})


def test_docs_name_the_commands() -> None:
    told = {name for row in rows(section("which command prints what")) for name in re.findall(r"`([a-z-]+)`", row[0])}
    assert told == {command.name for command in COMMANDS}
