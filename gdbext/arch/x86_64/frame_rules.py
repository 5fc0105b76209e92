"""Runs the instructions of a frame description (`DW_CFA_*`): where a frame's caller and its registers are stored."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gdbext.elf.dwarf_cursor import DwarfCursor
from gdbext.errors import CorruptStructure, GdbextError
from gdbext.record import record

#: DWARF register numbers of x86-64.
RDI, RBP, RSP, RA = 5, 6, 7, 16
CALLEE_SAVED = {3: "rbx", RBP: "rbp", 12: "r12", 13: "r13", 14: "r14", 15: "r15"}
#: DW_CFA instructions by their byte: the effect, and the operands: unsigned, signed, a factored offset of either kind
#: (U, S).
_INSTRUCTIONS = {
    0x00: ("nop", ""), 0x05: ("offset", "uU"), 0x06: ("restore", "u"), 0x07: ("undefined", "u"), 0x08: ("same", "u"),
    0x09: ("register", "uu"), 0x0A: ("remember", ""), 0x0B: ("restore state", ""), 0x0C: ("cfa", "uu"),
    0x0D: ("cfa register", "u"), 0x0E: ("cfa offset", "u"), 0x11: ("offset", "uS"),
    0x12: ("cfa", "uS"), 0x13: ("cfa offset", "S"), 0x14: ("value", "uu"), 0x15: ("value", "us"), 0x2E: ("nop", "u")}
#: The same that have an expression: of the CFA, of the address where a register is saved, and of a register's value.
_CFA_EXPRESSION, _EXPRESSION, _VALUE_EXPRESSION = 0x0F, 0x10, 0x16
#: Operations of expressions: a register's value plus an offset, and the word at the address so far.
_BREG_RBP, _DEREF = 0x70 + RBP, 0x06
#: The CFA in a linkage table: rsp + 8 + ((rip & 15 >= N) << 3), with the size N of the code of an entry that comes
#: before the end of its push instruction. Source: binutils bfd/elfxx-x86.c, elf_x86_64_eh_frame_lazy_plt.
_LINKAGE_CFA = re.compile(rb"\x77\x08\x80\x00\x3f\x1a([\x30-\x4f])\x2a\x33\x24\x22", re.DOTALL)
_RULES = ("offset", "undefined", "same", "register", "value")
_ADVANCES = {0x02: 1, 0x03: 2, 0x04: 4}


class CannotUnwind(GdbextError):
    """This frame needs the debugger's unwinder."""


@record
class Rule:
    """How to get from a frame to its caller at one program counter.

    The canonical frame address is `cfa_offset` bytes above rsp, or above rbp if `from_rbp`; the return address
    is stored at it + `ra_offset`; the caller's rbp at it + `rbp_offset`, or unchanged if that is None. `outermost`
    marks the frame that has no caller.

    A function that aligns its stack stores the canonical frame address at rbp + `cfa_at`. Its caller's rbp is stored
    where rbp points, and other registers at rbp + the offsets of `near_rbp`.

    The return address of vfork is in the register `returns_in`, because its child uses the same stack.
    """

    from_rbp: bool
    cfa_offset: int
    ra_offset: int
    rbp_offset: int | None
    outermost: bool = False
    saved: tuple[tuple[str, int], ...] = ()
    lost: tuple[str, ...] = ()
    cfa_at: int | None = None
    near_rbp: tuple[tuple[str, int], ...] = ()
    returns_in: str | None = None


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
    """The row of the call frame table that a program has built so far."""

    def __init__(self, pc: int) -> None:
        self.pc = pc
        self.cfa_register: int | None = None
        self.cfa_offset = 0
        self.cfa_at: int | None = None
        self.rules: dict[int, tuple[str, int]] = {}
        self.initial: dict[int, tuple[str, int]] = {}
        self.stack: list[tuple[int | None, int, int | None, dict[int, tuple[str, int]]]] = []

    def restore(self, register: int) -> None:
        """Give a register the rule that the CIE gives it."""
        self.rules[register] = self.initial.get(register, ("same", 0))

    def result(self) -> Rule:
        """The rule at the address.

        :raises CannotUnwind: `Rule` has no such form.
        """
        ra_kind, ra_offset = self.rules.get(RA, ("same", 0))
        if ra_kind == "undefined":
            return Rule(False, 8, -8, None, outermost=True)
        if (ra_kind, ra_offset, self.cfa_register) == ("register", RDI, RSP) and RBP not in self.rules:
            return Rule(False, self.cfa_offset, 0, None, returns_in="rdi")
        if self.cfa_register not in (RBP, RSP) and self.cfa_at is None or ra_kind != "offset":
            raise CannotUnwind("the frame is found through an expression or an unusual register")
        rbp_kind, rbp_offset = self.rules.get(RBP, ("same", 0))
        aligned = self.cfa_at is not None
        if (rbp_kind, rbp_offset) != ("near rbp", 0) if aligned else rbp_kind not in ("offset", "same", "undefined"):
            raise CannotUnwind("rbp is restored through an expression")
        others = {name: self.rules.get(number, ("same", 0)) for number, name in CALLEE_SAVED.items()}
        known = ("offset", "same", "near rbp") if aligned else ("offset", "same")

        def of_kind(wanted: str) -> tuple[tuple[str, int], ...]:
            return tuple([(name, offset) for name, (kind, offset) in others.items() if kind == wanted])

        return Rule(aligned or self.cfa_register == RBP, self.cfa_offset, ra_offset,
                    rbp_offset if rbp_kind == "offset" else None,
                    saved=tuple([each for each in of_kind("offset") if each[0] != "rbp"]),
                    lost=tuple([name for name, (kind, _) in others.items() if kind not in known and name != "rbp"]),
                    cfa_at=self.cfa_at, near_rbp=of_kind("near rbp") if aligned else ())


def row_at(found: Description, distance: int) -> State:
    """The row at a distance from the function's start, in bytes."""
    state, cie, body = State(found.start + distance), found.cie, found.program
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
        elif code in (_CFA_EXPRESSION, _EXPRESSION, _VALUE_EXPRESSION):
            register = program.uleb() if code != _CFA_EXPRESSION else None
            _apply_expression(state, code, register, program.take(program.uleb()))
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
        state.stack.append((state.cfa_register, state.cfa_offset, state.cfa_at, dict(state.rules)))
        if len(state.stack) > 64:
            raise CorruptStructure(address, "too many unwind states are remembered")
    elif effect == "restore state":
        if not state.stack:
            raise CorruptStructure(address, "an unwind state is restored that was not remembered")
        state.cfa_register, state.cfa_offset, state.cfa_at, state.rules = state.stack.pop()
    elif effect == "cfa":
        state.cfa_register, state.cfa_offset = operands
        state.cfa_at = None
    elif effect == "cfa register":
        state.cfa_register, state.cfa_at = operands[0], None
    elif effect == "cfa offset":
        state.cfa_offset = operands[0]


def _apply_expression(state: State, code: int, register: int | None, expression: bytes) -> None:
    """Apply an instruction with an expression: of a linkage table, or a sum of rbp and an offset."""
    linkage = _LINKAGE_CFA.fullmatch(expression) if register is None else None
    if linkage is not None:
        is_pushed = state.pc & 15 >= linkage[1][0] - 0x30
        state.cfa_register, state.cfa_offset, state.cfa_at = RSP, 16 if is_pushed else 8, None
        return
    is_stored = expression[-1:] == bytes([_DEREF])
    sum_of_rbp = expression[:-1] if register is None and is_stored else expression
    offset = None
    if sum_of_rbp[:1] == bytes([_BREG_RBP]):
        cursor = DwarfCursor(sum_of_rbp[1:], 0)
        value = cursor.sleb()
        offset = value if cursor.at == len(cursor.data) else None
    if register is None:
        state.cfa_register, state.cfa_at = None, offset if is_stored else None
    elif code == _EXPRESSION and offset is not None:
        state.rules[register] = ("near rbp", offset)
    else:
        state.rules[register] = ("expression", 0)
