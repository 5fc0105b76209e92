"""The schema as users' scripts rely on it; `GROWN` are the members that came later."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from gdbext.model import Columns, PyFrame, Report
from gdbext.schema.write import PARTS, SCHEMA, document
from tests.support.documents import as_json
from tests.support.fake_report import (
    HOSTILE,
    RWLOCK,
    gil_deadlock,
    healthy,
    hostile,
    inferred_deadlock,
    orphaned,
    world_that_does_not_stop,
)

REPORTS = {"gil": gil_deadlock, "inferred": inferred_deadlock, "orphaned": orphaned, "healthy": healthy,
           "world": world_that_does_not_stop}

ADDRESS, NUMBER, TEXT, FLAG = "address", "number", "text", "flag"
MODE, EVIDENCE = ("exclusive", "shared"), ("recorded", "derived", "inferred")


class Null:
    """May be null."""

    def __init__(self, schema: object) -> None:
        self.schema = schema


HOLD = {"lock": TEXT, "mode": MODE, "evidence": EVIDENCE, "why": Null(TEXT)}
PYTHON_FRAME = {"language": ("python",), "function": TEXT, "qualified_name": TEXT, "file": TEXT, "line": Null(NUMBER)}
NATIVE_FRAME = {"language": ("native",), "function": Null(TEXT), "module": Null(TEXT), "pc": ADDRESS,
                "file": Null(TEXT), "line": Null(NUMBER)}
GIL = {"state": ("held", "free", "disabled", "unknown"), "holder": Null(NUMBER), "evidence": EVIDENCE,
       "waiters": [NUMBER]}
STOP = {"requested": FLAG, "requester": Null(NUMBER), "waiting_for": [NUMBER]}
DOCUMENT = {
    "schema": ("gdbext/1",),
    "target": {"kind": ("live", "core"), "pid": NUMBER, "executable": Null(TEXT), "architecture": TEXT,
               "libc": Null(TEXT)},
    "runtimes": [{"version": TEXT, "build": ("default", "free-threaded"), "address": ADDRESS,
                  "layout": ("debug-offsets", "dwarf", "table"),
                  "interpreters": [{"id": NUMBER, "address": ADDRESS, "gil": GIL, "stop_the_world": STOP}]}],
    "threads": [{"number": NUMBER, "lwp": NUMBER, "tid": Null(NUMBER), "name": Null(TEXT), "python_name": Null(TEXT),
                 "tstate": Null(ADDRESS), "python_state": Null(("attached", "detached", "suspended")),
                 "status": ("blocked", "running", "unknown"), "syscall": Null(TEXT), "holds": [HOLD],
                 "waits": Null({"lock": TEXT, "mode": MODE, "timed": FLAG, "evidence": EVIDENCE, "why": Null(TEXT)}),
                 "stack": ["frame"]}],
    "locks": [{"id": TEXT, "kind": TEXT, "address": ADDRESS, "name": Null(TEXT), "state": TEXT,
               "holders": [{"thread": NUMBER, "mode": MODE, "evidence": EVIDENCE, "why": Null(TEXT)}],
               "waiters": [{"thread": NUMBER, "mode": MODE}], "candidates": [NUMBER], "orphan": Null(TEXT)}],
    "deadlocks": [{"threads": [NUMBER], "evidence": EVIDENCE,
                   "edges": [{"waiter": NUMBER, "lock": TEXT, "holder": Null(NUMBER)}], "why": Null(TEXT),
                   "stuck_behind": [NUMBER]}],
    "problems": [{"where": TEXT, "what": ("unreadable", "not recorded", "not applicable", "ambiguous"), "why": TEXT}],
}
#: Members that the first version of the schema did not have, by the path of their object.
GROWN = {"": {"rank", "known", "notes", "note_codes", "no_verdict", "no_verdict_code", "verdict"},
         ".target": {"command_line", "host", "time", "paused", "kept", "whole"}, ".problems[]": {"why_code"},
         ".runtimes[]": {"module", "finalizing"},
         ".runtimes[].interpreters[].gil": {"lock", "address", "drop_requested", "orphan", "orphan_code"},
         ".locks[]": {"why", "why_code", "wait_for", "shared", "orphan_code", "orphan_evidence", "foreign_owner",
                     "of_object"},
         ".deadlocks[]": {"standstill", "why_code"},
         ".deadlocks[].edges[]": {"evidence", "why", "why_code"},
         ".threads[]": {"unmerged", "unmerged_code", "parts", "blocked_on", "blocked_on_code", "critical_sections",
                       "ended_by", "since", "polling", "at_work", "in_loop", "takes_next", "ident"},
         ".threads[].waits": {"why_code"},
         ".threads[].stack[]": {"columns", "inlined", "kind", "locals"},
         ".threads[].holds[]": {"taken_at", "why_code"}, ".locks[].holders[]": {"taken_at", "why_code"}}


def check(value: Any, schema: Any, path: str = "") -> None:
    """Compare a value with its schema, members exactly."""
    if isinstance(schema, Null):
        if value is not None:
            check(value, schema.schema, path)
    elif isinstance(schema, dict):
        assert isinstance(value, dict), path
        assert set(schema) <= set(value), path
        assert set(value) - set(schema) <= GROWN.get(path, set()), path
        for name, inner in schema.items():
            check(value[name], inner, f"{path}.{name}")
    elif isinstance(schema, list):
        assert isinstance(value, list), path
        for item in value:
            check(item, schema[0], f"{path}[]")
    elif isinstance(schema, tuple):
        assert value in schema, (path, value)
    elif schema == "frame":
        check(value, PYTHON_FRAME if value.get("language") == "python" else NATIVE_FRAME, path)
    elif schema == ADDRESS:
        assert isinstance(value, str), path
        assert value == hex(int(value, 16)), path
    else:
        kind = {NUMBER: int, TEXT: str, FLAG: bool}[schema]
        assert isinstance(value, kind), (path, value)
        assert kind is bool or not isinstance(value, bool), path


@pytest.mark.parametrize("name", REPORTS)
def test_schema(name: str) -> None:
    check(json.loads(as_json(REPORTS[name]())), DOCUMENT)


@pytest.mark.parametrize("name", REPORTS)
def test_schema_of_hostile_targets(name: str) -> None:
    check(json.loads(as_json(hostile(REPORTS[name]()))), DOCUMENT)


@pytest.mark.parametrize("name", REPORTS)
def test_references_lead_somewhere(name: str) -> None:
    made = document(REPORTS[name]())
    numbers = {thread["number"] for thread in made["threads"]}
    locks = {lock["id"] for lock in made["locks"]}
    assert len(locks) == len(made["locks"])
    for thread in made["threads"]:
        assert {hold["lock"] for hold in thread["holds"]} <= locks
        assert thread["waits"] is None or thread["waits"]["lock"] in locks
    for deadlock in made["deadlocks"]:
        assert {edge["lock"] for edge in deadlock["edges"]} <= locks
        assert {edge["waiter"] for edge in deadlock["edges"]} <= numbers


def test_values() -> None:
    made = document(gil_deadlock())
    assert made["schema"] == SCHEMA == "gdbext/1"
    assert made["target"] == {"kind": "live", "pid": 885, "executable": "/usr/bin/python3.11", "architecture": "x86_64",
                              "libc": "glibc 2.36", "command_line": None, "host": None, "time": None, "paused": None,
                              "kept": None, "whole": None}
    assert made["verdict"] == {
        "title": "DEADLOCK", "sentence": "2 threads wait for each other; 1 more is stuck behind them",
        "ends_by_itself": False, "next": None, "kind": "deadlock", "threads": [1, 2], "behind": [3], "tasks": [],
        "evidence": "recorded"}
    assert made["deadlocks"] == [
        {"threads": [1, 2], "evidence": "recorded", "why": None, "why_code": None, "stuck_behind": [3],
         "standstill": False,
         "edges": [{"waiter": 1, "lock": RWLOCK, "holder": 2, "evidence": "recorded", "why": None, "why_code": None},
                   {"waiter": 2, "lock": "gil:0", "holder": 1, "evidence": "recorded", "why": None, "why_code": None}]}]
    first = made["threads"][0]
    assert (first["tstate"], first["lwp"], first["tid"]) == ("0x55d0", 885, 1)
    assert first["waits"] == {"lock": RWLOCK, "mode": "exclusive", "timed": False, "evidence": "recorded", "why": None,
                              "why_code": None}
    assert first["stack"][1:3] == [
        {"language": "native", "function": "update_table", "module": "libdrv.so", "pc": "0x7f0000002000",
         "file": "/src/drv.c", "line": 12,
         "inlined": [{"function": "drv::Guard<T>::Guard", "file": "/src/guard.h", "line": 7},
                     {"function": "drv::enter", "file": None, "line": None}]},
        {"language": "python", "function": "update", "qualified_name": "Table.update", "file": "/app/job.py",
         "line": 41, "columns": None, "kind": None}]
    assert made["threads"][4]["tstate"] is None
    assert made["locks"][1]["candidates"] == [3, 4]
    assert (made["locks"][1]["wait_for"], made["locks"][1]["shared"]) == ("all", False)
    assert made["no_verdict"] is None
    assert made["problems"] == [{"where": "thread 5", "what": "unreadable", "why": "it runs",
                                 "why_code": {"code": "text", "arguments": {"text": "it runs"}}}]


def test_columns() -> None:
    report = gil_deadlock()
    frame = PyFrame("f", "f", "/app/job.py", 41, Columns(4, 17, 43))
    first = dataclasses.replace(report.threads[0], stack=(frame, *report.threads[0].stack))
    stack = document(dataclasses.replace(report, threads=(first,)))["threads"][0]["stack"]
    assert [made.get("columns", "none of native code") for made in stack] == [
        [4, 17, 43], "none of native code", "none of native code", None, None, "none of native code"]


def test_critical_sections() -> None:
    made = document(world_that_does_not_stop())
    assert [thread["critical_sections"] for thread in made["threads"]] == [
        [], [{"mutex": None, "object": None, "type": None, "active": False}],
        [{"mutex": "0x20a", "object": "0x200", "type": "list", "active": True},
         {"mutex": "0x30a", "object": "0x300", "type": "dict", "active": False}], []]
    assert "critical_sections" not in document(gil_deadlock())["threads"][0]


def test_orphan_has_no_holder() -> None:
    made = document(orphaned())
    assert made["deadlocks"][0]["edges"] == [
        {"waiter": 1, "lock": "mutex:0x10", "holder": None, "evidence": "recorded", "why": None,
         "why_code": None}]
    assert made["locks"][0]["orphan"] == "thread exited"
    assert made["locks"][0]["orphan_code"] == {"code": "thread-exited", "arguments": {}}


@pytest.mark.parametrize("parts", [(), ("runtimes",), ("threads", "locks", "problems"), PARTS])
def test_only_the_parts_asked_for(parts: tuple[str, ...]) -> None:
    made = document(gil_deadlock(), parts)
    assert set(made) - {"schema", "target", "notes", "note_codes", "no_verdict", "no_verdict_code",
                        "verdict"} == set(parts)


@pytest.mark.parametrize("report", [gil_deadlock(), hostile(gil_deadlock())], ids=["plain", "hostile"])
def test_one_line_of_ascii(report: Report) -> None:
    text = as_json(report)
    assert text.isascii()
    assert text.isprintable()
    assert json.loads(text) == document(report)


def test_strings_come_through_unchanged() -> None:
    assert json.loads(as_json(hostile(gil_deadlock())))["threads"][0]["name"] == HOSTILE
