"""What single instructions of arm64 do to a register whose value is followed to its origin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gdbext.arch import origins
from gdbext.arch.aarch64.instructions import MemoryOperand, canonical, part
from gdbext.arch.aarch64.registers import ARGUMENTS, GENERAL, RESULT, STACK_POINTER
from gdbext.arch.origins import Rules
from gdbext.arch.protocol import Instruction, Origin

_EXTENDS = {"uxtb": 8, "uxth": 16, "sxtb": 8, "sxth": 16, "sxtw": 32, "uxtw": 32}
_LOADS = ("ldr", "ldur", "ldp", "ldnp", "ldar", "ldapr", "ldapur", "ldx", "ldax", "ldtr")
#: Most instructions that make one constant.
_MAX_PARTS = 4


def origin(instructions: Sequence[Instruction], index: int, register: str) -> Origin | None:
    """Find the origin of a general register, or a part of it; see `gdbext.arch.origins.origin`.

    An address that several instructions make (``adrp``, ``add``, ``ldr``) is one constant.
    """
    name, bits = part(register) or (canonical(register), 64)
    if name not in GENERAL:
        return None
    found = origins.origin(instructions, index, name, bits, Rules(ARGUMENTS, STACK_POINTER, _moved, _made))
    if found is None or found.instruction is None:
        return found
    at = index_of(instructions, found.instruction)
    if found.kind == "computed":
        value = _constant(instructions, at, name, _MAX_PARTS)
        return replace(found, kind="constant", value=value, operand=None) if value is not None else found
    operand = found.operand
    if found.kind == "loaded" and isinstance(operand, MemoryOperand) and operand.index is None:
        base = _before(instructions, at, str(operand.base), _MAX_PARTS) if operand.base is not None else None
        if base is not None:
            place = replace(operand, displacement=base + operand.displacement, base=None)
            return replace(found, operand=place, operand_unchanged=True)
    return found


def index_of(instructions: Sequence[Instruction], wanted: Instruction) -> int:
    """The index of an instruction by its address."""
    return next(i for i, each in enumerate(instructions) if each.address == wanted.address)


def _before(instructions: Sequence[Instruction], index: int, register: str, limit: int) -> int | None:
    """The constant in a register before an instruction; None if it has none, or not on all paths."""
    found = origins.origin(instructions, index, register, 64, Rules(ARGUMENTS, STACK_POINTER, _moved, _made))
    if found is None or found.instruction is None or not found.certain or not limit:
        return None
    if found.kind == "constant":
        return found.value
    return _constant(instructions, index_of(instructions, found.instruction), register, limit - 1) \
        if found.kind == "computed" else None


def _constant(instructions: Sequence[Instruction], at: int, register: str, limit: int) -> int | None:
    """The constant that an addition makes of another one."""
    for made in instructions[at].assignments() or ():
        if made.target == canonical(register) and isinstance(made.source, str) and not made.is_address:
            base = _before(instructions, at, made.source, limit)
            return base + made.offset if base is not None else None
    return None


def _moved(instruction: Instruction, register: str) -> tuple[str, int, int] | None:
    """(source, bits that are moved, bits that are set) if an instruction only moves another register into this one."""
    operands = instruction.operands
    target = part(operands[-1]) if len(operands) == 2 else None
    source = part(operands[0]) if target is not None else None
    if target is None or source is None or target[0] != register:
        return None
    if instruction.mnemonic == "mov":
        return source[0], min(source[1], target[1]), 64
    return (source[0], _EXTENDS[instruction.mnemonic], 64) if instruction.mnemonic in _EXTENDS else None


def _made(instruction: Instruction, register: str, bits: int) -> Origin | None:
    """The origin of a value that an instruction made, not moved."""
    if instruction.kind == "call":
        return Origin("result", instruction) if register == RESULT else None
    memory = instruction.memory
    if instruction.mnemonic.startswith(_LOADS) and isinstance(memory, MemoryOperand):
        if register == memory.base and (memory.moves is not None or memory.moves_by_register):
            return Origin("computed", instruction)
        return Origin("loaded", instruction, _place(instruction, memory, register))
    for made in instruction.assignments() or ():
        if made.target == register and isinstance(made.source, int):
            return Origin("constant", instruction, value=made.source)
    return Origin("computed", instruction)


def _place(instruction: Instruction, memory: MemoryOperand, register: str) -> MemoryOperand:
    """The word that a load moves into a register: the second one of a pair is behind the first."""
    names = [operand for operand in reversed(instruction.operands) if isinstance(operand, str)]
    found = [part(name) for name in names]
    number = next((i for i, each in enumerate(found) if each is not None and each[0] == register), 0)
    size = 4 if instruction.mnemonic == "ldpsw" or found and found[0] is not None and found[0][1] == 32 else 8
    return replace(memory, displacement=memory.displacement + size * number) if number else memory
