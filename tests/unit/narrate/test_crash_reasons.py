"""Each crash code is used, and has a sentence that matches its arguments."""

from __future__ import annotations

import ast
import functools
import inspect
import string
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

import gdbext
from gdbext.model.crash_reasons import CrashCode
from gdbext.model.reasons import because
from gdbext.narrate.crash_reasons import _FILLERS, WORDINGS
from gdbext.narrate.reasons import explain
from tests.support.reasons import text

HOME = Path(gdbext.__file__).resolve().parent


def strings(node: ast.AST) -> Iterator[str]:
    """The possible string values of an expression."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.IfExp):
        yield from (*strings(node.body), *strings(node.orelse))


@functools.cache
def calls() -> list[tuple[str, set[str], bool]]:
    """Each call of `because`: its code, its keyword names, and whether it passes further arguments."""
    found = []
    for path in HOME.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "because":
                names = {keyword.arg for keyword in node.keywords if keyword.arg is not None}
                found += [(code, names, len(names) < len(node.keywords)) for code in strings(node.args[0])]
    return found


def names_of(code: str) -> tuple[set[str], set[str]]:
    """The required and the possible arguments of a sentence."""
    wording = WORDINGS[code]
    if isinstance(wording, str):
        fields = {name for _, name, _, _ in string.Formatter().parse(wording) if name is not None}
        return fields, fields
    parameters = inspect.signature(wording).parameters
    return ({name for name, each in parameters.items() if each.default is inspect.Parameter.empty}, set(parameters))


def test_every_code_has_a_wording() -> None:
    assert set(WORDINGS) == set(get_args(CrashCode))


def test_every_code_is_used() -> None:
    assert set(get_args(CrashCode)) <= {code for code, _, _ in calls()}


def test_arguments_match_the_sentence() -> None:
    checked = 0
    for code, given, has_more in calls():
        if code in WORDINGS:
            needed, known = names_of(code)
            assert given <= known, code
            assert has_more or needed <= given, code
            checked += 1
    assert checked > 100


@pytest.mark.parametrize("filler", _FILLERS)
def test_every_filler_has_words(filler: str) -> None:
    sentence = explain(because("fill-pattern", byte=0xDD, filler=filler))
    assert sentence == f"the byte 0xdd eight times, a fill pattern ({_FILLERS[filler]})"


@pytest.mark.parametrize(("access", "size", "address", "is_readable", "expected"), [
    ("read", 8, 0x18, 1, "read 8 bytes at 0x18: it is bad"), ("write", 1, 0x18, 1, "wrote 1 byte at 0x18: it is bad"),
    ("read", None, 0x18, 1, "read memory at 0x18: it is bad"),
    (None, None, 0x18, 1, "accessed memory at 0x18: it is bad"),
    ("execute", None, 0x18, 1, "ran code at 0x18: it is bad"),
    (None, None, None, 0, "accessed memory (the instruction is not known): it is bad"),
])
def test_sentence_of_a_memory_access(access: str | None, size: int | None, address: int | None, is_readable: int,
                                     expected: str) -> None:
    assert explain(because("accessed", access=access, size=size, address=address, is_readable=is_readable,
                           problem=text("it is bad"))) == expected
