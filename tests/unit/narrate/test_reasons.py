"""Each reason code is used, and has a sentence that matches its arguments."""

from __future__ import annotations

import ast
import functools
import inspect
import string
from collections.abc import Iterator
from pathlib import Path

import pytest

import gdbext
from gdbext.libraries import LIBRARIES
from gdbext.model.kinds import all_kinds
from gdbext.model.reasons import Reason, ReasonCode, because, joined
from gdbext.narrate import reasons
from gdbext.narrate.crash_reasons import WORDINGS as CRASH_WORDINGS
from gdbext.narrate.reasons import explain

HOME = Path(gdbext.__file__).resolve().parent
CODES = {*reasons._WORDINGS, *reasons._of_libraries()[0]}


@functools.cache
def trees() -> list[ast.AST]:
    """The code without tables of words; not at import, which each worker of pytest-xdist would take a second for."""
    return [ast.parse(path.read_text(encoding="utf-8")) for path in sorted(HOME.rglob("*.py"))
            if path.name != "reasons.py" and (path.name != "__init__.py" or path.parents[1].name != "libraries")]


@functools.cache
def nodes() -> list[ast.AST]:
    """The parts of that code."""
    return [node for tree in trees() for node in ast.walk(tree)]


def texts(node: ast.AST) -> Iterator[str]:
    """The string constants in a part of the code."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Constant) and isinstance(inner.value, str):
            yield inner.value


def calls() -> list[ast.Call]:
    """The calls of `because`."""
    return [node for node in nodes() if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
            and node.func.id == "because"]


def codes_of(argument: ast.expr) -> Iterator[str]:
    """The codes that the first argument of `because` may be."""
    branches = [argument.body, argument.orelse] if isinstance(argument, ast.IfExp) else []
    for branch in branches:
        yield from codes_of(branch)
    if isinstance(argument, ast.Constant):
        yield str(argument.value)


def test_every_code_has_one_sentence() -> None:
    assert {code for call in calls() for code in codes_of(call.args[0])} <= {*CODES, *CRASH_WORDINGS}
    assert len(CODES) + len(CRASH_WORDINGS) == sum(map(len, (
        reasons._WORDINGS, CRASH_WORDINGS, *(library.words for library in LIBRARIES))))


def test_every_code_is_used() -> None:
    used = {text for call in calls() for text in texts(call.args[0])}
    # a variable declared as a code
    used |= {text for node in nodes() if isinstance(node, ast.AnnAssign) and "ReasonCode" in ast.dump(node.annotation)
             for text in texts(node)}
    used |= {text for node in nodes() if isinstance(node, ast.Assign)
             and any(isinstance(target, ast.Name) and target.id == "code" for target in node.targets)
             for text in texts(node.value)}
    used |= {kind.no_owner for kind in all_kinds().values() if kind.no_owner is not None}
    assert set(CODES) - used == {"several", "part-unreadable"} - used  # made in model/reasons.py


def test_every_sentence_gets_its_arguments() -> None:
    found = calls()
    assert len(found) > 100
    for call in found:
        given = {str(keyword.arg) for keyword in call.keywords}
        for code in set(CODES).intersection(texts(call.args[0])):
            wording = reasons.wording_of(code)
            if isinstance(wording, str):
                wanted = {field for _, field, _, _ in string.Formatter().parse(wording) if field}
                assert given == wanted, ast.unparse(call)
            else:
                parameters = inspect.signature(wording).parameters.values()
                required = {each.name for each in parameters if each.default is each.empty}
                assert required <= given <= {each.name for each in parameters}, ast.unparse(call)


def test_every_word_for_an_argument_is_used() -> None:
    used = {text for tree in trees() for text in texts(tree)}
    assert {*reasons._PARTS, *reasons._OWNERLESS, *reasons._PLACES, *reasons._of_libraries()[1]} <= used


def test_text_is_not_formatted() -> None:
    assert explain(because("text", text="a {brace}")) == "a {brace}"


def test_reasons_in_arguments_become_sentences() -> None:
    worker = because("openmp-worker", library="libomp.so.5")
    both = explain(because("several", reasons=(worker, because("idle-pool"))))
    assert both == "OpenMP worker of libomp.so.5; an idle thread pool"
    ends = tuple(because("descriptor-of", fd=fd, process=because("process", pid=88, name="sh")) for fd in (3, 4))
    assert explain(because("other-end", ends=ends)) == (
        'the other end is fd 3 of process 88 "sh" and fd 4 of process 88 "sh"')


@pytest.mark.parametrize(("codes", "expected"), [
    ((), None), (("sleeps",), because("sleeps")),
    (("sleeps", "idle-pool"), because("several", reasons=(because("sleeps"), because("idle-pool")))),
])
def test_joined_reasons(codes: tuple[ReasonCode, ...], expected: Reason | None) -> None:
    assert joined([because(code) for code in codes]) == expected


@pytest.mark.parametrize(("waits", "unfinished", "text"), [
    ("join", 2, "2 unfinished tasks, 1 queued"), ("join", 1, "1 unfinished task, 1 queued"),
    ("put", 2, "maxsize 10, 1 queued"), ("get", 2, "1 queued"), ("of a later version", 2, "1 queued")])
def test_counts_of_a_queue(waits: str, unfinished: int, text: str) -> None:
    assert explain(because("queue-counts", waits=waits, unfinished=unfinished, maxsize=10, queued=1)) == text


@pytest.mark.parametrize(("reason", "text"), [
    (because("runs-call", function="child"), "it runs the call of child whose result this is"),
    (because("runs-call", function=None), "it runs the call whose result this is"),
    (because("call-is-queued", function="a", workers=1, queued=1, functions=("a",)),
     "its call of a is queued behind the only worker of the pool"),
    (because("call-is-queued", function=None, workers=4, queued=3, functions=()),
     "its call is queued, with 2 more, behind all 4 workers of the pool"),
    (because("call-lost", workers=1, gone=()), "its call is lost: the only worker of the pool waits for calls, and no "
     "result is on its way; a worker that had it has ended"),
    (because("call-lost", workers=3, gone=("W-2",)),
     "its call is lost: worker W-2 has ended and was replaced, and all 3 workers of the pool wait for calls"),
    (because("call-lost", workers=3, gone=("W-2", "W-4")), "its call is lost: workers W-2 and W-4 have ended and were "
     "replaced, and all 3 workers of the pool wait for calls"),
    (because("pool-without-workers", pending=1), "its pool has no worker process and starts none; 1 call is pending"),
    (because("pool-sends-call", function="child"), "it has to send the call of child to a worker of the pool"),
])
def test_results_of_pools(reason: Reason, text: str) -> None:
    assert explain(reason) == text
