from __future__ import annotations

import dis
import sys
from types import CodeType

import pytest

from gdbext.cpython.code import bytecode
from gdbext.cpython.code.bytecode import Bytecode, Instruction, decode, with_blocks, with_table
from gdbext.errors import CorruptStructure
from gdbext.layout.opcodes import Opcodes, opcodes_of
from tests.support.bytecode import assemble

VERSIONS = range(8, 16)


def opcodes(minor: int = sys.version_info[1]) -> Opcodes:
    found = opcodes_of(3, minor)
    assert found is not None
    return found


def names_from(code: Bytecode, start: int) -> set[str]:
    """The instructions that may follow one."""
    return {code.instructions[i].name for i in code.successors[start]}


def functions() -> list[CodeType]:
    return [value.__code__ for module in (bytecode, dis) for value in vars(module).values()
            if hasattr(value, "__code__")]


def test_instructions_are_those_of_dis() -> None:
    for code in functions():
        plain = [(each.opname, each.offset) for each in dis.get_instructions(code)
                 if each.opname not in ("CACHE", "EXTENDED_ARG")]
        found = decode(code.co_code, opcodes())
        assert [(each.name, each.end - 2 - 2 * opcodes().caches.get(each.name, 0)) for each in found] == plain


@pytest.mark.skipif(sys.version_info < (3, 11), reason="instructions are specialised since 3.11")
def test_specialised_instructions_are_those_that_they_stand_for() -> None:
    known = opcodes()
    for _ in range(100):
        for code in functions():
            decode(code.co_code, known)
    adaptive = [(code.co_code, code._co_code_adaptive) for code in functions()]  # type: ignore[attr-defined]
    assert any(plain != special for plain, special in adaptive)
    for plain, special in adaptive:
        assert [each[:2] for each in decode(special, known)] == [each[:2] for each in decode(plain, known)]


@pytest.mark.parametrize("minor", VERSIONS)
def test_bytes_that_are_no_instruction(minor: int) -> None:
    known = opcodes(minor)
    unknown = next(number for number in range(256) if number not in known.names)
    with pytest.raises(CorruptStructure):
        decode(bytes((unknown, 0)), known)


@pytest.mark.parametrize("minor", VERSIONS)
def test_prefixes_extend_the_argument(minor: int) -> None:
    known = opcodes(minor)
    (found,) = decode(assemble(known, ("EXTENDED_ARG", 1), ("LOAD_FAST", 2)), known)
    assert found == Instruction(0, "LOAD_FAST", 0x102, 4)


@pytest.mark.parametrize("minor", range(11, 16))
def test_handlers_of_the_exception_table(minor: int) -> None:
    known = opcodes(minor)
    code = assemble(known, ("NOP", 0), ("NOP", 0), ("RETURN_VALUE", 0), ("PUSH_EXC_INFO", 0), ("RERAISE", 0))
    # from the second instruction on two are protected, with the fourth as handler
    found = with_table(code, bytes((0x80 | 1, 2, 3, 0)), known)
    assert found.handlers == [None, 3, 3, None, None]
    assert found.successors == [(1,), (2,), (), (4,), ()]
    assert [found.index(offset) for offset in (-2, 0, 3, 4, 9, 10)] == [None, 0, 1, 2, 4, None]
    with pytest.raises(CorruptStructure):
        with_table(code, bytes((0x80 | 1, 2, 60, 0)), known)


@pytest.mark.parametrize("minor", [8, 9, 10])
def test_handlers_of_the_block_stack(minor: int) -> None:
    known = opcodes(minor)
    unit = 1 if minor == 10 else 2
    end = "END_FINALLY" if minor == 8 else "RERAISE"
    code = assemble(known, ("SETUP_FINALLY", 3 * unit), ("NOP", 0), ("POP_BLOCK", 0), ("RETURN_VALUE", 0),
                    ("POP_TOP", 0), (end, 0), ("RETURN_VALUE", 0))
    found = with_blocks(code, known)
    assert found.handlers == [None, 4, 4, None, None, None, None]
    assert [found.may_raise(i) for i in range(7)] == [False] * 5 + [True, False]


def test_called_finally_of_3_8_returns_to_its_callers() -> None:
    known = opcodes(8)
    code = assemble(known, ("SETUP_FINALLY", 8), ("POP_BLOCK", 0), ("CALL_FINALLY", 4), ("RETURN_VALUE", 0),
                    ("NOP", 0), ("POP_TOP", 0), ("END_FINALLY", 0), ("LOAD_CONST", 0), ("RETURN_VALUE", 0))
    found = with_blocks(code, known)
    assert names_from(found, 2) == {"POP_TOP"}
    assert names_from(found, 6) == {"LOAD_CONST", "RETURN_VALUE"}


@pytest.mark.parametrize("minor", VERSIONS)
def test_jumps(minor: int) -> None:
    known = opcodes(minor)
    code = assemble(known, ("NOP", 0), ("JUMP_FORWARD", 1 if minor >= 10 else 2), ("NOP", 0), ("RETURN_VALUE", 0))
    found = (with_table(code, b"", known) if minor >= 11 else with_blocks(code, known))
    assert found.successors == [(1,), (3,), (3,), ()]
    broken = assemble(known, ("JUMP_FORWARD", 200), ("RETURN_VALUE", 0))
    with pytest.raises(CorruptStructure):
        with_table(broken, b"", known)
