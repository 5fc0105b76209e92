"""Reports come back from their documents as they were, and a bad document raises one clear error."""

from __future__ import annotations

import copy
import dataclasses
import functools
import inspect
import json
import random
import typing
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from gdbext import model
from gdbext.errors import BadDocument
from gdbext.model import Crash, Fault, MixedStack, NativeFrame, Part, Report
from gdbext.model.reasons import because
from gdbext.render.dot import as_dot
from gdbext.render.html import html_page
from gdbext.render.shown import Shown
from gdbext.render.style import PLAIN
from gdbext.render.text import TextRenderer
from gdbext.schema.read import read_document
from gdbext.schema.write import ALL_PARTS, document
from tests.support import combinations, fake_page, fake_report
from tests.support.documents import as_json
from tests.support.fake_report import INFO, asyncio, crashed, gil_deadlock, hostile, orphaned, world_that_does_not_stop
from tests.support.reasons import text
from tests.support.round_trip import read_again

MUTATIONS = 10_000 if combinations.LONG else 3_000


def builders(module: object) -> Iterator[Callable[[], Report]]:
    """The functions of a module that make a report; where they want a number it is 3."""
    for function in vars(module).values():
        if inspect.isfunction(function) and function.__module__ == getattr(module, "__name__", None):
            hints = typing.get_type_hints(function)
            wanted = [name for name, each in inspect.signature(function).parameters.items()
                      if each.default is inspect.Parameter.empty]
            if hints.get("return") is Report and all(hints[name] is int for name in wanted):
                yield functools.partial(function, **dict.fromkeys(wanted, 3))


REPORTS = [build() for module in (fake_report, fake_page) for build in builders(module)]


# -- what comes through ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("report", REPORTS)
def test_a_report_comes_back(report: Report) -> None:
    assert read_again(report) == report


@pytest.mark.parametrize("report", REPORTS)
def test_a_report_of_a_hostile_target_comes_back(report: Report) -> None:
    assert read_again(hostile(report)) == hostile(report)


def values(value: Any) -> Iterator[Any]:
    """All records in a value, itself included."""
    if dataclasses.is_dataclass(value):
        yield value
        value = [getattr(value, field.name) for field in dataclasses.fields(value)]
    elif isinstance(value, dict):
        value = list(value.values())
    for inner in value if isinstance(value, (list, tuple)) else ():
        yield from values(inner)


def test_the_reports_have_something_in_each_field_of_the_model() -> None:
    """Otherwise that they come back would say little; a field that no document may lack has any value."""
    found = {(type(each).__name__, field.name) for report in REPORTS for each in values(report)
             for field in dataclasses.fields(each)
             if field.default is dataclasses.MISSING or getattr(each, field.name) != field.default}
    classes = {each for each in vars(model).values() if inspect.isclass(each) and dataclasses.is_dataclass(each)}
    fields = {(each.__name__, field.name) for each in classes for field in dataclasses.fields(each)}
    # only documents count frames that were left out
    assert fields - found == {("MixedStack", "left_out")}


def test_a_document_of_some_parts_comes_back() -> None:
    for parts in (("problems",), ("runtimes", "threads", "problems"), ("deadlocks", "problems"), ALL_PARTS):
        made = document(asyncio(), parts)
        assert document(read_document(made), made.keys()) == made


def test_frames_left_out_are_counted_once() -> None:
    frames = tuple(NativeFrame("f", "app", 0x1000 + index) for index in range(2000))
    stack = MixedStack(frames, (Part(frames[:1]), Part(frames[1:1999], "again"), Part(frames[1999:], "program start")))
    fault = Fault("SIGSEGV", None, "stack-overflow", text("a frame too many"))
    found = read_again(Report(INFO, crash=Crash(1, fault, stack)))
    assert found.crash is not None
    assert found.crash.stack == MixedStack(
        frames[:500], (Part(frames[:1]), Part(frames[1:500], "again")), left_out=1500)
    assert read_again(found) == found


# -- other versions --------------------------------------------------------------------------------------------


def test_a_document_without_later_members_is_read() -> None:
    made = document(gil_deadlock())
    for thread in made["threads"]:
        del thread["unmerged"]
    for lock in made["locks"]:
        del lock["orphan_evidence"], lock["foreign_owner"]
    for edge in made["deadlocks"][0]["edges"]:
        del edge["evidence"], edge["why"]
    del made["runtimes"][0]["interpreters"][0]["gil"]["orphan"]
    assert read_document(made) == gil_deadlock()


def without_codes(value: Any) -> Any:
    """A document as versions without reason codes wrote it."""
    if isinstance(value, dict):
        return {name: without_codes(inner) for name, inner in value.items()
                if not name.endswith("_code") and name != "note_codes"}
    return [without_codes(inner) for inner in value] if isinstance(value, list) else value


@pytest.mark.parametrize("report", REPORTS)
def test_a_document_without_codes_keeps_its_sentences(report: Report) -> None:
    made = without_codes(document(report, ALL_PARTS))
    assert without_codes(document(read_document(made), ALL_PARTS)) == made


@pytest.mark.parametrize("code", [
    None, 7, [], {}, {"code": "later", "arguments": {}}, {"code": "text", "arguments": None},
    {"code": "text", "arguments": {}}, {"code": "text", "arguments": {"text": 1.5}},
    {"code": "text", "arguments": {"text": True}}, {"code": "several", "arguments": {"reasons": [1]}},
    {"code": "not-a-descriptor", "arguments": {"pthread": "0x10"}}, {"code": "opens", "arguments": {"access": 9}},
    {"code": "only-thread-inside", "arguments": {"where": "later"}},
    {"code": "gil-holder-unknown", "arguments": {"lock": {"code": "later", "arguments": {}}}},
])
def test_a_code_that_cannot_be_explained_leaves_the_sentence(code: object) -> None:
    made = document(orphaned())
    made["locks"][0]["why"], made["locks"][0]["why_code"] = "a sentence", code
    assert read_document(made).locks[0].why == because("text", text="a sentence")


def test_reasons_are_read_to_a_limit() -> None:
    deep: object = "x"
    for _ in range(500):
        deep = {"code": "text", "arguments": {"text": deep}}
    made = document(orphaned())
    made["locks"][0]["why_code"] = deep
    assert read_document(made).locks[0].why == because("text", text=made["locks"][0]["why"])


def test_unknown_members_are_ignored() -> None:
    made = document(gil_deadlock())
    made["later"] = made["threads"][0]["later"] = made["locks"][0]["later"] = {"a": [None]}
    assert read_document(made) == gil_deadlock()


# -- bad documents ---------------------------------------------------------------------------------------------


def error(value: object) -> str:
    with pytest.raises(BadDocument) as caught:
        read_document(value)
    assert caught.value.hint
    return str(caught.value)


def changed(path: tuple[str | int, ...], value: object, report: Report) -> Any:
    made: Any = document(report, ALL_PARTS)
    part = made
    for step in path[:-1]:
        part = part[step]
    part[path[-1]] = value
    return made


@pytest.mark.parametrize(("path", "value", "message"), [
    (("schema",), "gdbext/2", '$.schema: expected "gdbext/1"'),
    (("schema",), ["gdbext/1"], '$.schema: expected "gdbext/1"'),
    (("target",), None, "$.target: expected an object, found a value of type NoneType"),
    (("target", "pid"), "885", "$.target.pid: expected an integer, found a value of type str"),
    (("threads", 0, "number"), True, "$.threads[0].number: expected an integer, found a value of type bool"),
    (("threads", 1, "lwp"), 1.5, "$.threads[1].lwp: expected an integer, found a value of type float"),
    (("locks", 0, "shared"), 0, "$.locks[0].shared: expected true or false, found a value of type int"),
    (("threads", 0, "stack"), {}, "$.threads[0].stack: expected a list, found a value of type dict"),
    (("threads", 0, "stack", 2, "language"), "c", '$.threads[0].stack[2].language: expected "python" or "native"'),
    (("threads", 0, "stack", 2, "columns"), [1], "$.threads[0].stack[2].columns: expected a list of 3 integers"),
    (("threads", 0, "tstate"), "0x1_0", '$.threads[0].tstate: expected an address such as "0x7f30"'),
    (("threads", 0, "tstate"), "0x10\n", '$.threads[0].tstate: expected an address such as "0x7f30"'),
    (("threads", 0, "parts"), [{"first": 4, "frames": 2, "text": None, "note": None, "name": None}],
     "$.threads[0].parts[0]: it has frames of another part, none, or more than the stack"),
    (("locks", 0, "wait_for"), "most", '$.locks[0].wait_for: expected "all" or "any"'),
    (("locks", 0, "holders", 0, "evidence"), "guess",
     '$.locks[0].holders[0].evidence: expected "recorded" or "derived" or "inferred"'),
    (("locks", 0, "holders", 0, "mode"), {}, '$.locks[0].holders[0].mode: expected "exclusive" or "shared"'),
    (("notes",), None, "$.notes: expected a list, found a value of type NoneType"),
])
def test_a_wrong_value_is_reported_with_its_path(path: tuple[str | int, ...], value: object, message: str) -> None:
    assert error(changed(path, value, gil_deadlock())) == message


def test_the_names_of_registers_are_escaped_in_a_path() -> None:
    message = error(changed(("crash", "fault", "registers"), {"\x1b[2J": 7}, crashed()))
    assert message == "$.crash.fault.registers['\\x1b[2J']: expected a string, found a value of type int"


@pytest.mark.parametrize("value", [None, [], "gdbext/1", 7])
def test_what_is_no_object_is_no_document(value: object) -> None:
    assert error(value).startswith("$: expected an object, found")


def members(value: Any, path: str = "$") -> Iterator[tuple[Any, Any, str]]:
    """Each place in a document: what it is in, its name or index there, and its path."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in list(pairs):
        step = f"{path}.{key}" if isinstance(value, dict) else f"{path}[{key}]"
        yield value, key, step
        yield from members(inner, step)


def test_a_missing_member_is_reported_with_its_path() -> None:
    missing = []
    for whole in (document(asyncio(), ALL_PARTS), document(crashed(), ALL_PARTS), document(world_that_does_not_stop())):
        for part, key, path in members(whole):
            if isinstance(part, dict):
                value = part.pop(key)
                try:
                    read_document(whole)
                except BadDocument as found:
                    missing.append((str(found), path))
                part[key] = value
    assert len(missing) > 200
    assert [message for message, _ in missing] == [f"{path}: it is missing" for _, path in missing]


def anywhere(value: Any, chance: random.Random) -> tuple[Any, Any]:
    """Some place in a document: what it is in, and its name or index there."""
    while True:
        key = chance.choice(list(value) if isinstance(value, dict) else range(len(value)))
        if not isinstance(value[key], (dict, list)) or not value[key] or chance.random() < 0.2:
            return value, key
        value = value[key]


def render(report: Report) -> None:
    assert TextRenderer(report, PLAIN, lambda path, line: None).threads(None, False, "full")
    assert as_dot(report)
    assert html_page([Shown("core", report)], "damaged")


@pytest.mark.slow
def test_damaged_documents_are_read_or_refused() -> None:
    """Whatever a document became, it makes a report that can be written, read again and rendered, or the one error."""
    chance = random.Random(1)
    texts = [as_json(report, ALL_PARTS) for report in (asyncio(), crashed(), world_that_does_not_stop())]
    strange: list[Any] = [
        None, True, False, 0, -1, 3, 2 ** 70, 10 ** 400, 1.5, float("nan"), "", "0x", "0x10", "gil:0", "\ud800", [],
        [[]], {}, {"language": "python"},
    ]
    outcomes = {True: 0, False: 0}
    for _ in range(MUTATIONS):
        made = json.loads(chance.choice(texts))
        for _ in range(chance.choice((1, 1, 1, 2, 5))):
            part, key = anywhere(made, chance)
            how = chance.randrange(4)
            if how == 0:
                del part[key]
            elif how == 1:
                part[key] = copy.deepcopy(chance.choice(strange))
            elif how == 2:
                other, name = anywhere(made, chance)
                part[key] = copy.deepcopy(other[name])
            elif isinstance(part, list):
                part.insert(key, copy.deepcopy(part[key]))
            else:
                part["later"] = part[key]
        try:
            report = read_document(made)
        except BadDocument:
            outcomes[False] += 1
        else:
            outcomes[True] += 1
            assert read_again(report) == report
            if outcomes[True] % 8 == 0:  # a page takes much longer than its document
                render(report)
    assert min(outcomes.values()) > MUTATIONS // 100


def damaged(report: Report, *path: str | int, value: object) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(as_json(report, ALL_PARTS))
    part: Any = made
    for key in path[:-1]:
        part = part[key]
    part[path[-1]] = value
    return made


@pytest.mark.parametrize(("path", "value", "message"), [
    (("target", "time"), 10 ** 400, "$.target.time: expected a finite number"),
    (("target", "pid"), 1 << 64, "$.target.pid: expected an integer of at most 64 bits"),
    (("threads", 0, "waits"), None, "$.deadlocks[0].edges[0]: its waiter does not wait for a lock"),
    (("deadlocks", 0, "threads"), [], "$.deadlocks[0]: a deadlock needs threads and edges"),
    (("deadlocks", 0, "edges"), [], "$.deadlocks[0]: a deadlock needs threads and edges"),
    (("task_cycles",), [[]], "$.task_cycles or .greenlet_cycles: a cycle needs members"),
])
def test_what_no_renderer_can_show_is_refused(path: tuple[str | int, ...], value: object, message: str) -> None:
    with pytest.raises(BadDocument) as raised:
        read_document(damaged(gil_deadlock(), *path, value=value))
    assert str(raised.value) == message


@pytest.mark.parametrize(("frames", "message"), [
    (0, "it has frames of another part, none, or more than the stack"), (2, "several frames need a text")])
def test_part_without_a_text_has_one_frame(frames: int, message: str) -> None:
    made = document(gil_deadlock())
    part = {"first": 0, "frames": frames, "text": None, "note": None, "name": None}
    made["threads"][0]["parts"] = [part]
    with pytest.raises(BadDocument, match=f"parts.0.: {message}"):
        read_document(made)


def test_document_without_deadlocks_has_no_verdict() -> None:
    made = json.loads(as_json(gil_deadlock(), ["threads", "locks", "problems"]))
    report = read_document(made)
    assert report.threads == gil_deadlock().threads
    assert report.no_verdict == because("deadlocks-not-listed")
    # that of an older version lists deadlocks and may lack the other member
    made = json.loads(as_json(gil_deadlock()))
    del made["no_verdict"]
    assert read_document(made).no_verdict is None
