"""Loops of functions that this interpreter has compiled; tests/gdb/test_verdicts.py has those of others."""

from __future__ import annotations

import dis
import sys
import textwrap
from types import CodeType

import pytest

from gdbext.cpython.code.bytecode import Bytecode, with_blocks, with_table
from gdbext.cpython.code.lock_calls import Names, iter_places
from gdbext.cpython.code.loops import begins_turn, find_condition, is_repeated
from gdbext.layout.opcodes import opcodes_of

pytestmark = pytest.mark.skipif(opcodes_of(*sys.version_info[:2]) is None, reason="no table for this interpreter")


def compiled(body: str) -> tuple[CodeType, Bytecode, int]:
    """A function with this body, its bytecode, and the offset of the call in the line with the comment `here`."""
    opcodes = opcodes_of(*sys.version_info[:2])
    assert opcodes is not None
    source = "def work(ready, sleep, items):\n" + textwrap.indent(textwrap.dedent(body), "    ")
    module = compile(source, "job.py", "exec")
    code = next(each for each in module.co_consts if isinstance(each, CodeType))
    if sys.version_info >= (3, 11):
        bytecode = with_table(code.co_code, code.co_exceptiontable, opcodes)
    else:
        bytecode = with_blocks(code.co_code, opcodes)
    line = 1 + next(i for i, text in enumerate(source.splitlines()) if text.endswith("# here"))
    lines = dict(dis.findlinestarts(code))
    at = next(each.offset for each in dis.get_instructions(code) if each.opname.startswith("CALL")
              and lines[max(start for start in lines if start <= each.offset)] == line)
    return code, bytecode, at


def line_of_condition(body: str) -> int | None:
    """The line, in the body, of the condition of the loop around the call."""
    code, bytecode, at = compiled(body)
    lines = dict(dis.findlinestarts(code))
    found = find_condition(bytecode, at)
    if found is None:
        return None
    return int(lines[max(start for start in lines if start <= found.start)] or 0) - 1


@pytest.mark.parametrize(("body", "line"), [
    ("while not ready():\n    sleep(1)  # here", 1),
    ("while True:\n    if ready():\n        break\n    sleep(1)  # here", 2),
    ("while True:\n    if ready():\n        return 1\n    sleep(1)  # here", 2),
    ("for item in items:\n    sleep(1)  # here", 1),
    ("while True:\n    try:\n        items.pop()\n        break\n    except OSError:\n        sleep(1)  # here", 3),
    # an exception ends it
    ("while True:\n    try:\n        items.pop()\n    except OSError:\n        sleep(1)  # here", None),
    ("while True:\n    if not ready():\n        raise OSError\n    sleep(1)  # here", None),
    # no condition ends it
    ("while True:\n    sleep(1)  # here", None),
    ("while True:\n    if ready():\n        items.append(1)\n    sleep(1)  # here", None),
    # in no loop
    ("sleep(1)  # here", None),
    ("while not ready():\n    pass\nsleep(1)  # here", None),
    ("for item in items:\n    sleep(1)  # here\n    return 1", None),
])
def test_condition_of_a_loop(body: str, line: int | None) -> None:
    assert line_of_condition(body) == line


def test_offset_outside_the_code() -> None:
    opcodes = opcodes_of(*sys.version_info[:2])
    assert opcodes is not None
    empty = with_blocks(b"", opcodes) if sys.version_info < (3, 11) else with_table(b"", b"", opcodes)
    assert find_condition(empty, 4) is None
    assert not is_repeated(empty, 4)


@pytest.mark.parametrize(("body", "expected"), [
    ("while True:\n    sleep(1)  # here", True),
    ("while not ready():\n    sleep(1)  # here", True),
    ("while True:\n    for item in items:\n        sleep(item)  # here", True),
    # the work for one item
    ("for item in items:\n    sleep(item)  # here", False),
    ("for item in items:\n    for part in item:\n        sleep(part)  # here", False),
    ("for item in items:\n    while not ready():\n        sleep(item)  # here", True),
    ("sleep(1)  # here", False),
    ("while not ready():\n    pass\nsleep(1)  # here", False),
])
def test_call_that_may_be_repeated_without_end(body: str, expected: bool) -> None:
    _, bytecode, at = compiled(body)
    assert is_repeated(bytecode, at) is expected


def test_next_item_may_come_without_end() -> None:
    code, bytecode, _ = compiled("for item in items:\n    sleep(item)  # here")
    at = next(each.offset for each in dis.get_instructions(code) if each.opname == "FOR_ITER")
    assert is_repeated(bytecode, at)


@pytest.mark.parametrize(("body", "places"), [
    ("while not ready.done:\n    sleep(1)  # here", {"ready.done"}),
    ("while not ready.is_done():\n    sleep(1)  # here", {"ready"}),
    ("while ready or items:\n    sleep(1)  # here", {"ready", "items"}),
    ("while ready.a.b < items and count:\n    sleep(1)  # here", {"ready.a.b", "items", "count"}),
    ("while len(items) < 3:\n    sleep(1)  # here", {"len", "items"}),
    ("while True:\n    items.append(1)\n    if ready == items.last:\n        break\n    sleep(1)  # here",
     {"ready", "items.last"}),
    ("for item in items:\n    if ready:\n        break\n    sleep(1)  # here", {"ready"}),
    # a nested function shares the variable
    ("def check():\n    return ready\nwhile not ready:\n    sleep(1)  # here", {"ready"}),
])
def test_names_in_a_condition(body: str, places: set[str]) -> None:
    code, bytecode, at = compiled(body)
    condition = find_condition(bytecode, at)
    assert condition is not None
    if sys.version_info >= (3, 11):
        cells = [*code.co_cellvars, *code.co_freevars]
        names = Names(code.co_names, [*code.co_varnames, *(name for name in cells if name not in code.co_varnames)], 0)
    else:
        names = Names(code.co_names, [*code.co_varnames, *code.co_cellvars, *code.co_freevars], len(code.co_varnames))
    found = {str(place) for place in iter_places(bytecode, names, sys.version_info[:2], condition.tests, False)}
    assert found == places


@pytest.mark.parametrize(("body", "begins"), [
    ("while True:\n    item = ready()  # here\n    sleep(item)", True),
    ("while True:\n    sleep(ready())  # here", True),
    ("ready()  # here", True),
    ("sleep(1)\nready()  # here", False),
    ("while True:\n    sleep(1)\n    ready()  # here", False),
    ("for item in items:\n    sleep(item)\n    ready()  # here", False),
    # a client asks before it waits for the answer, even if not each time
    ("while True:\n    if items:\n        sleep(1)\n    ready()  # here", False),
    ("while True:\n    sleep(1)\n    for item in items:\n        ready()  # here", False)])
def test_first_call_of_a_turn(body: str, begins: bool) -> None:
    _, bytecode, at = compiled(body)
    assert begins_turn(bytecode, at) is begins
