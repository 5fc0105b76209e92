"""Runs the instructions of a frame description (`DW_CFA_*`): where a frame's caller and its registers are stored.

Format: DWARF 5 section 6.4. The registers, and what expressions mean, are those of a processor.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from gdbext.elf.dwarf_cursor import DwarfCursor
from gdbext.errors import CorruptStructure, GdbextError
from gdbext.record import record

#: DW_CFA instructions by their byte: the effect, and the operands: unsigned, signed, a factored offset of either kind
#: (U, S). 0x2E is DW_CFA_GNU_args_size.
_INSTRUCTIONS = {
    0x00: ("nop", ""), 0x05: ("offset", "uU"), 0x06: ("restore", "u"), 0x07: ("undefined", "u"), 0x08: ("same", "u"),
    0x09: ("register", "uu"), 0x0A: ("remember", ""), 0x0B: ("restore state", ""), 0x0C: ("cfa", "uu"),
    0x0D: ("cfa register", "u"), 0x0E: ("cfa offset", "u"), 0x11: ("offset", "uS"),
    0x12: ("cfa", "uS"), 0x13: ("cfa offset", "S"), 0x14: ("value", "uu"), 0x15: ("value", "us"), 0x2E: ("nop", "u")}
#: The same that have an expression: of the CFA, of the address where a register is saved, and of a register's value.
CFA_EXPRESSION, EXPRESSION, VALUE_EXPRESSION = 0x0F, 0x10, 0x16
#: DW_CFA_AARCH64_negate_ra_state; other processors have another instruction here.
_NEGATE = 0x2D
_RULES = ("offset", "undefined", "same", "register", "value")
_ADVANCES = {0x02: 1, 0x03: 2, 0x04: 4}


class CannotUnwind(GdbextError):
    """This frame needs the debugger's unwinder."""


@record
class Cie:
    """A common information entry.

    `personality` is the routine that handles exceptions: (whether its address is stored there, address).
    """

    code_align: int
    data_align: int
    pointer_encoding: int
    has_augmentation: bool
    is_signal: bool
    program: bytes
    personality: tuple[bool, int] | None
    table_encoding: int


@record
class Description:
    """The frame description of the code from `start` to `end`: its instructions and augmentation data."""

    cie: Cie
    start: int
    end: int
    program: DwarfCursor
    augmentation: DwarfCursor | None


class State:
    """The row of the call frame table that a program has built so far.

    `cfa_at`: the CFA is not a register plus an offset, but stored at the frame pointer + `cfa_at`. `is_signed`: the
    return address has an authentication code, which only a processor that `SIGNS` puts there.
    """

    SIGNS = False

    def __init__(self, pc: int) -> None:
        self.pc = pc
        self.cfa_register: int | None = None
        self.cfa_offset = 0
        self.cfa_at: int | None = None
        self.rules: dict[int, tuple[str, int]] = {}
        self.initial: dict[int, tuple[str, int]] = {}
        self.is_signed = False
        self.stack: list[tuple[int | None, int, int | None, bool, dict[int, tuple[str, int]]]] = []

    def restore(self, register: int) -> None:
        """Give a register the rule that the CIE gives it."""
        self.rules[register] = self.initial.get(register, ("same", 0))

    def apply_expression(self, code: int, register: int | None, expression: bytes) -> None:
        """Apply an instruction with an expression.

        :param register: None for the CFA.
        """
        if register is None:
            raise CannotUnwind("the frame is found through an expression")
        self.rules[register] = ("expression", 0)


AnyState = TypeVar("AnyState", bound=State)


def row_at(found: Description, distance: int, kind: type[AnyState]) -> AnyState:
    """The row at a distance from the function's start, in bytes."""
    state, cie, body = kind(found.start + distance), found.cie, found.program
    _run(DwarfCursor(cie.program, 0), cie, state, None)
    state.initial = dict(state.rules)
    _run(DwarfCursor(body.data[body.at:], body.address + body.at), cie, state, distance)
    return state


def _run(program: DwarfCursor, cie: Cie, state: State, wanted: int | None) -> None:
    """Interpret call frame instructions up to `wanted` bytes into the function (None: all of them)."""
    location = 0
    while program.at < len(program.data):
        code = program.unsigned(1)
        high, low = code & 0xC0, code & 0x3F
        if high == 0x40 or code in _ADVANCES:
            location += (low if high == 0x40 else program.unsigned(_ADVANCES[code])) * cie.code_align
            if wanted is not None and location > wanted:
                return
        elif high == 0x80:
            state.rules[low] = ("offset", program.uleb() * cie.data_align)
        elif high == 0xC0:
            state.restore(low)
        elif code in (CFA_EXPRESSION, EXPRESSION, VALUE_EXPRESSION):
            register = program.uleb() if code != CFA_EXPRESSION else None
            state.apply_expression(code, register, program.take(program.uleb()))
        elif code == _NEGATE and state.SIGNS:
            state.is_signed = not state.is_signed
        elif code in _INSTRUCTIONS:
            effect, operands = _INSTRUCTIONS[code]
            _apply(effect, [_operand(kind, program, cie) for kind in operands], state, program.address)
        else:  # DW_CFA_set_loc and those of other processors
            raise CannotUnwind(f"call frame instruction {code:#x}")


def _operand(kind: str, program: DwarfCursor, cie: Cie) -> int:
    value = program.uleb() if kind in "uU" else program.sleb()
    return value * cie.data_align if kind.isupper() else value


def _apply(effect: str, operands: Sequence[int], state: State, address: int) -> None:
    if effect in _RULES:
        state.rules[operands[0]] = (effect, operands[-1])
    elif effect == "restore":
        state.restore(operands[0])
    elif effect == "remember":
        state.stack.append((state.cfa_register, state.cfa_offset, state.cfa_at, state.is_signed, dict(state.rules)))
        if len(state.stack) > 64:
            raise CorruptStructure(address, "too many unwind states are remembered")
    elif effect == "restore state":
        if not state.stack:
            raise CorruptStructure(address, "an unwind state is restored that was not remembered")
        state.cfa_register, state.cfa_offset, state.cfa_at, state.is_signed, state.rules = state.stack.pop()
    elif effect == "cfa":
        state.cfa_register, state.cfa_offset = operands
        state.cfa_at = None
    elif effect == "cfa register":
        state.cfa_register, state.cfa_at = operands[0], None
    elif effect == "cfa offset":
        state.cfa_offset = operands[0]
