from __future__ import annotations

import base64
import dis
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import Any, cast

import pytest

from gdbext.cpython.code import linetable
from gdbext.cpython.code.linetable import Positions, iter_entries, line_of, positions_of
from tests.support import interpreters
from tests.support.fake_memory import noise

# -- the format of the Python that runs the tests, on real code -----------------------------------------------

SOURCES = {
    "straight": "a = 1\nb = 2\n\n\nc = a + b\n",
    "many lines": "\n" * 300 + "x = 1\n" + "\n" * 2000 + "y = 2\n" + "\n" * 100_000 + "z = 3\n",
    "backwards": "f = lambda *a: a\nx = f(\n  1,\n  f(\n    2\n  ),\n  f(3)\n)\n",
    "functions": "def f(a,\n      b=1,\n      *c):\n    '''d'''\n    def g():\n        nonlocal a\n        a = 2\n"
                 "        yield a\n    return g\n",
    "blocks": "import os\ntry:\n    with open(os.devnull) as f:\n        for i in range(3):\n            if i:\n"
              "                continue\n            else:\n                break\n        else:\n            pass\n"
              "except (OSError,\n        ValueError) as e:\n    raise RuntimeError(\n        'x'\n    ) from e\n"
              "finally:\n    while True:\n        break\n",
    "async": "async def f():\n    async with g() as h:\n        async for i in h:\n            await i\n"
             "    return [j async for j in h\n            if j]\n",
    "classes": "class A:\n    x: int = 1\n\n    @property\n    def y(self):\n        return {\n            'a': 1,\n"
               "            **self.z,\n        }\n",
    "long line": "x = [" + ", ".join(f"(a{i}, b{i})" for i in range(150)) + "]\n",
    "comprehensions": "x = [\n  i\n  for i in y\n  if i\n]\nz = {k: v\n     for k, v in x}\n",
    "nothing": "",
}


def codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes(constant)


def running_table(code: CodeType) -> bytes:
    if sys.version_info >= (3, 10):
        return code.co_linetable
    return cast(bytes, cast(Any, code).co_lnotab)


def expected_lines(code: CodeType) -> dict[int, int | None]:
    """Byte offset -> line, from the running Python itself."""
    if sys.version_info >= (3, 10):
        return {offset: line for start, end, line in code.co_lines() for offset in range(start, end, 2)}
    found: dict[int, int | None] = {}
    starts = dict(dis.findlinestarts(code))
    line: int | None = code.co_firstlineno
    for offset in range(0, len(code.co_code), 2):
        line = starts.get(offset, line)
        found[offset] = line
    return found


def compare(code: CodeType) -> int:
    for each in codes(code):
        table, version = running_table(each), sys.version_info[:2]
        for offset, line in expected_lines(each).items():
            assert line_of(table, each.co_firstlineno, offset, version) == line, (each.co_name, offset)
    return sum(len(expected_lines(each)) for each in codes(code))


@pytest.mark.parametrize("name", SOURCES)
def test_every_instruction_agrees_with_the_running_python(name: str) -> None:
    assert compare(compile(SOURCES[name], "x.py", "exec")) > 0


@pytest.mark.parametrize("module", [dis, __import__("argparse"), linetable],
                         ids=lambda module: str(module.__name__))
def test_real_modules(module: object) -> None:
    functions = [value for value in vars(module).values() if isinstance(value, FunctionType)]
    functions += [value for thing in vars(module).values() if isinstance(thing, type)
                  for value in vars(thing).values() if isinstance(value, FunctionType)]
    assert functions
    assert sum(compare(function.__code__) for function in functions) > 100


@pytest.mark.skipif(sys.version_info < (3, 11), reason="co_positions came with Python 3.11")
@pytest.mark.parametrize("name", SOURCES)
def test_positions_agree(name: str) -> None:
    if sys.version_info >= (3, 11):
        for code in codes(compile(SOURCES[name], "x.py", "exec")):
            for index, positions in enumerate(code.co_positions()):
                where = code.co_linetable, code.co_firstlineno, 2 * index, sys.version_info[:2]
                assert line_of(*where) == positions[0]
                assert positions_of(*where) == positions


#: Prints version, table, first line and positions of every code object of a few modules and of the sources.
DUMP = """
import argparse, ast, asyncio.base_events, base64, dataclasses, json, sys, typing
def dump(code):
    print(json.dumps([sys.version_info[:2], base64.b64encode(code.co_linetable).decode(), code.co_firstlineno,
                      list(code.co_positions()), code.co_name]))
    for constant in code.co_consts:
        if hasattr(constant, "co_code"):
            dump(constant)
for module in (argparse, ast, asyncio.base_events, dataclasses, typing):
    with open(module.__file__, encoding="utf-8") as file:
        dump(compile(file.read(), module.__file__, "exec"))
for source in json.load(sys.stdin):
    dump(compile(source, "x.py", "exec"))
"""
WIDE = {"bytes": "größe = ('ä', \U0001f40d := 1)".replace("\U0001f40d", "ж") + "\nx = größe.count('ä')\n",
        "no names": "def f():\n    pass\n"}


LARGE = 300


@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13"])
@pytest.mark.slow
def test_positions_agree_with_other_cpythons(version: str) -> None:
    python, _ = interpreters.use(version)
    given = json.dumps([*SOURCES.values(), *WIDE.values()])
    ran = subprocess.run([python, "-I", "-c", DUMP], input=given, capture_output=True, text=True, check=True)
    instructions = columns = 0
    for line in ran.stdout.splitlines():
        found, table, first_line, expected, name = json.loads(line)
        assert tuple(found) == tuple(int(part) for part in version.split("."))
        data = base64.b64decode(table)
        # each search starts at the beginning of the table: of large tables only some instructions are tested
        step = 1 + len(expected) // LARGE
        got = [positions_of(data, first_line, 2 * i, tuple(found)) for i in range(0, len(expected), step)]
        assert got == [Positions(*positions) for positions in expected[::step]], name
        assert positions_of(data, first_line, 2 * len(expected), tuple(found)) is None
        instructions += len(got)
        columns += sum(positions[2] is not None for positions in expected[::step])
    assert instructions > 50_000
    assert columns > 40_000


def test_beyond_the_table() -> None:
    code = compile("a = 1\n", "x.py", "exec")
    if sys.version_info >= (3, 10):
        assert line_of(running_table(code), 1, len(code.co_code) + 100, sys.version_info[:2]) is None


# -- the other formats, by hand -------------------------------------------------------------------------------

# CPython Objects/lnotab_notes.txt: instructions at 0, 6, 50, 350, 361 begin lines 1, 2, 7, 207, 208
LNOTAB = bytes([0, 1, 6, 1, 44, 5, 255, 0, 45, 127, 0, 73, 11, 1])


@pytest.mark.parametrize(("offset", "line"), [(0, 1), (5, 1), (6, 2), (49, 2), (50, 7), (349, 7), (350, 207),
                                              (360, 207), (361, 208), (9999, 208)])
def test_lnotab(offset: int, line: int) -> None:
    for version in ((3, 6, 15), (3, 9, 18)):
        assert line_of(LNOTAB, 0, offset, version) == line


def test_lnotab_goes_backwards() -> None:
    table = bytes([0, 10, 4, 0x100 - 3, 4, 0x80, 4, 127])
    assert [line_of(table, 200, offset, (3, 9)) for offset in (0, 4, 8, 12)] == [210, 207, 79, 206]


def test_empty_lnotab() -> None:
    assert line_of(b"", 12, 0, (3, 9)) == line_of(b"", 12, 100, (3, 9)) == 12
    assert line_of(b"\x01", 12, 100, (3, 9)) == 12


# (end, line) of the entries, as CPython 3.10 Objects/lnotab_notes.txt has them
RANGES = bytes([6, 1, 44, 5, 254, 200 - 73 - 1 - 6, 50, 80, 4, 0x80, 8, 0x100 - 2, 0, 10, 2, 1])


@pytest.mark.parametrize(("offset", "line"), [
    (0, 1), (4, 1), (6, 6), (48, 6), (50, 126), (302, 126), (304, 206), (352, 206), (354, None), (356, None),
    (358, 204), (364, 204), (366, 215), (368, None), (5000, None),
])
def test_ranges_of_3_10(offset: int, line: int | None) -> None:
    assert line_of(RANGES, 0, offset, (3, 10, 13)) == line


def test_empty_ranges_of_3_10() -> None:
    assert line_of(b"", 12, 0, (3, 10)) is None
    assert line_of(b"\x04", 12, 0, (3, 10)) is None


def entry(code: int, units: int, rest: bytes = b"") -> bytes:
    return bytes([0x80 | code << 3 | units - 1]) + rest


LOCATIONS = (
    entry(13, 1, b"\x02") + entry(0, 2, b"\x12") + entry(9, 1, b"\x34") + entry(10, 1, b"\x01\x02")
    + entry(11, 1, b"\x01\x02") + entry(12, 1, b"\x01\x02") + entry(15, 8) + entry(14, 1, b"\x03\x00\x01\x01")
    + entry(13, 1, b"\x64\x01") + entry(14, 1, b"\x41\x01\x00\x41\x01\x01") + entry(0, 1, b"\x00")
)
LINES = [101, 101, 101, 101, 101, 102, 104, *[None] * 8, 103, 153, 121, 121]


def test_locations() -> None:
    for version in ((3, 11, 7), (3, 13, 0), (3, 15, 2)):
        assert [line_of(LOCATIONS, 100, 2 * i, version) for i in range(len(LINES))] == LINES
        assert line_of(LOCATIONS, 100, 2 * len(LINES), version) is None
    assert sum(length for length, *_ in iter_entries(LOCATIONS, 100)) == 2 * len(LINES)


def test_positions() -> None:
    nothing = Positions(None, None, None, None)
    expected = [
        Positions(101, 101, None, None), *[Positions(101, 101, 1, 3)] * 2, Positions(101, 101, 75, 79),
        Positions(101, 101, 1, 2), Positions(102, 102, 1, 2), Positions(104, 104, 1, 2), *[nothing] * 8,
        Positions(103, 103, 0, 0), Positions(153, 153, None, None), Positions(121, 121, 64, 0),
        Positions(121, 121, 0, 0), None,
    ]
    for version in ((3, 11, 7), (3, 13, 0), (3, 15, 2)):
        assert [positions_of(LOCATIONS, 100, 2 * i, version) for i in range(len(expected))] == expected
        assert positions_of(LOCATIONS, 100, -2, version) == Positions(100, None, None, None)


def test_positions_of_several_lines() -> None:
    table = entry(14, 1, b"\x02\x03\x05\x42\x01")
    assert positions_of(table, 7, 0, (3, 12)) == Positions(8, 11, 4, 65)
    assert positions_of(entry(14, 1, b"\x00\x01\x00\x00"), 7, 0, (3, 12)) == Positions(7, 8, None, None)


@pytest.mark.parametrize("version", [(3, 6), (3, 9, 18), (3, 10, 13)])
def test_no_positions_before_3_11(version: tuple[int, ...]) -> None:
    for table in (LOCATIONS, LNOTAB, RANGES, b""):
        assert positions_of(table, 1, 0, version) is None


def test_empty_locations() -> None:
    assert line_of(b"", 1, 0, (3, 12)) is None
    assert positions_of(b"", 1, 0, (3, 12)) is None


@pytest.mark.parametrize("table", [b"\x00", b"\x7f" * 10, b"\x01" + LOCATIONS])
def test_location_table_that_begins_inside_an_entry(table: bytes) -> None:
    assert list(iter_entries(table, 1)) == []


# -- damaged tables -------------------------------------------------------------------------------------------

def bounded(table: bytes, version: tuple[int, ...]) -> None:
    start = time.process_time()
    for offset in (0, 2, 1000, 1 << 28):
        line = line_of(table, 1, offset, version)
        assert line is None or 0 <= line < 1 << 31
        positions = positions_of(table, 1, offset, version)
        assert positions is None or positions.line == line
        assert positions is None or all(number is None or 0 <= number < 1 << 31 for number in positions)
    assert time.process_time() - start < 10


@pytest.mark.parametrize("version", [(3, 9), (3, 10), (3, 11)])
@pytest.mark.parametrize("seed", range(20))
def test_noise(version: tuple[int, ...], seed: int) -> None:
    bounded(noise(3 + 97 * seed, seed), version)


@pytest.mark.parametrize("version", [(3, 9), (3, 10), (3, 11)])
@pytest.mark.parametrize("byte", [0x00, 0x7F, 0x80, 0xFF, 0xE8, 0xF0, 0xF8])
def test_a_large_table_of_one_byte(version: tuple[int, ...], byte: int) -> None:
    bounded(bytes([byte]) * (1 << 20), version)


def test_unterminated_number() -> None:
    bounded(entry(13, 1, b"\x7f" * (1 << 20)), (3, 11))
    bounded(entry(14, 1, b"\x7f" * (1 << 20)), (3, 11))
    endless = entry(14, 1, b"\x02" + b"\x7f" * (1 << 20))
    bounded(endless, (3, 11))
    assert positions_of(endless, 1, 0, (3, 11)) == Positions(2, 2, None, None)


# -5; -5; a kind 13 with -5, a kind 14 with -5 and 2 lines more: each from line 3
BACKWARDS = [(bytes([0, 0x100 - 5]), (3, 6)), (bytes([0, 0x100 - 5]), (3, 9)), (bytes([4, 0x100 - 5]), (3, 10)),
             (entry(13, 2, b"\x0b"), (3, 11)), (entry(14, 2, b"\x0b\x02\x01\x01"), (3, 14))]


@pytest.mark.parametrize(("table", "version"), BACKWARDS)
def test_negative_line_is_not_known(table: bytes, version: tuple[int, ...]) -> None:
    assert line_of(table, 3, 0, version) is None
    assert line_of(table, 5, 0, version) == 0  # the first line of a module in CPython
    if version >= (3, 11):
        assert positions_of(table, 3, 0, version) == Positions(None, None, None, None)


@pytest.mark.parametrize("version", [(3, 6), (3, 9), (3, 10), (3, 11), (3, 14)])
def test_negative_first_line_is_not_known(version: tuple[int, ...]) -> None:
    assert line_of(b"", -7, -2, version) is None
    assert positions_of(b"", -7, -2, version) in (None, Positions(None, None, None, None))


def number(value: int) -> bytes:
    """A number in the format of location tables."""
    groups = [value >> shift & 63 for shift in range(0, max(value.bit_length(), 1), 6)]
    return bytes([group | 64 for group in groups[:-1]] + groups[-1:])


def test_numbers_that_are_too_large_are_not_known() -> None:
    far = entry(13, 1, number(2 << 31))
    assert (line_of(far, 1, 0, (3, 12)), positions_of(far, 1, 0, (3, 12))) == (None, Positions(None, None, None, None))
    for numbers in ([0, 1 << 31, 1, 1], [0, 0, (1 << 31) + 1, 1], [0, 0, 1, (1 << 31) + 1]):
        table = entry(14, 1, b"".join(map(number, numbers)))
        assert positions_of(table, 1, 0, (3, 12)) == Positions(1, 1, None, None)


@pytest.mark.parametrize("size", range(len(LOCATIONS)))
def test_cut_location_table(size: int) -> None:
    # complete entries are decoded as before; the cut entry may be decoded or not
    got = [line_of(LOCATIONS[:size], 100, 2 * i, (3, 11)) for i in range(len(LINES))]
    whole = sum(length for length, *_ in iter_entries(LOCATIONS[:size], 100)) // 2
    assert got[whole:] == [None] * (len(LINES) - whole)
    assert got[:max(whole - 8, 0)] == LINES[:max(whole - 8, 0)]


@pytest.mark.parametrize("cut", [entry(0, 1), entry(10, 1, b"\x01"), entry(14, 1, b"\x00\x00\x05"),
                                 entry(14, 1, b"\x00\x00\x05\x41"), entry(14, 1, b"\x00\x41")])
def test_cut_columns(cut: bytes) -> None:
    for rest in (b"", entry(0, 1, b"\x12")):
        assert positions_of(cut + rest, 5, 0, (3, 13)) == Positions(5, 5, None, None)
