"""What single instructions of x86-64 do to a register whose value is followed to its origin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from gdbext.arch import origins
from gdbext.arch.origins import Rules
from gdbext.arch.protocol import Change, Instruction, Origin
from gdbext.arch.x86_64.instructions import EXTEND, NO_INDEX, MemoryOperand, base_name, canonical, part
from gdbext.arch.x86_64.registers import ARGUMENTS, GENERAL, STACK_POINTER


def origin(instructions: Sequence[Instruction], index: int, register: str) -> Origin | None:
    """Find the origin of a general register, or a part of it; see `gdbext.arch.origins.origin`."""
    bits = (part(register) or (register, 64))[1] or 16  # the parts without a size of their own are the second bytes
    name = canonical(register)
    rules = Rules(ARGUMENTS, STACK_POINTER, _moved, _made)
    return origins.origin(instructions, index, name, bits, rules) if name in GENERAL else None


def change(instructions: Sequence[Instruction], source: str, target: str, bits: int,
           ones: Mapping[str, int]) -> Change | None:
    """What straight code has done to the lowest bits of one register's value to make those of another one.

    :param instructions: that run one after the other. After them `source` still has the value.
    :param ones: bits that are set in registers after them.
    :return: None if the target was not made from the source, or by other instructions.
    """
    unchanged = Change()
    known = {source: unchanged}
    for i, instruction in enumerate(instructions):
        made: tuple[str, Change] | None = None
        base, operands = base_name(instruction.mnemonic), instruction.operands
        whole = part(operands[-1]) if operands else None
        first = operands[0] if len(operands) == 2 else 1 if base in ("inc", "dec") else None
        if whole is not None and whole[1] >= bits:
            before, moved = known.get(whole[0]), part(first) if isinstance(first, str) else None
            if base == "mov" and moved is not None and moved[1] >= bits and moved[0] in known:
                made = whole[0], known[moved[0]]
            elif base == "lea" and isinstance(first, MemoryOperand) and first.index is None:
                made = _plus(whole[0], known.get(canonical(first.base or "")), first.displacement)
            elif base in ("add", "inc", "sub", "dec") and isinstance(first, int):
                made = _plus(whole[0], before, first if base in ("add", "inc") else -first)
            elif base == "or" and before is not None and not before.added:
                mask = first if isinstance(first, int) else 0
                if moved is not None and not any(moved[0] in later.written for later in instructions[i:]):
                    mask = ones.get(moved[0], 0)
                made = whole[0], replace(before, ones=before.ones | mask & (1 << bits) - 1)
        for name in instruction.written:
            known.pop(name, None)
        if source not in known:
            known = {source: unchanged}
        elif made is not None:
            known[made[0]] = replace(made[1], added=made[1].added & (1 << bits) - 1)
    return known.get(target)


def _plus(name: str, before: Change | None, added: int) -> tuple[str, Change] | None:
    return (name, replace(before, added=before.added + added)) if before is not None and not before.ones else None


def _moved(instruction: Instruction, register: str) -> tuple[str, int, int] | None:
    """(source, bits that are moved, bits that are set) if an instruction only moves another register into this one."""
    mnemonic, operands = instruction.mnemonic, instruction.operands
    if mnemonic in ("cltq", "cwtl"):
        return ("rax", 32, 64) if mnemonic == "cltq" else ("rax", 16, 64)
    target = part(operands[1]) if len(operands) == 2 else None
    if target is None or target[0] != register or target[1] == 0:
        return None
    width = 64 if target[1] >= 32 else target[1]
    source = operands[0]
    if mnemonic == "lea":
        if (isinstance(source, MemoryOperand) and source.base is not None and source.displacement == 0
                and (source.index is None or source.index in NO_INDEX)):
            base = part(source.base)
            return (base[0], min(base[1], target[1]), width) if base is not None else None
        return None
    whole = part(source)
    if whole is None or whole[1] == 0 or base_name(mnemonic) != "mov" and not EXTEND.match(mnemonic):
        return None
    return whole[0], whole[1], width


def _made(instruction: Instruction, register: str, bits: int) -> Origin | None:
    """The origin of a value that an instruction made, not moved."""
    mnemonic, operands = instruction.mnemonic, instruction.operands
    if instruction.kind == "call":
        return Origin("result", instruction) if register == "rax" else None
    computed = Origin("computed", instruction)
    target = part(operands[-1]) if operands else None
    # a part of fewer bits than asked for; an instruction that sets 32 bits sets the others to zero
    if target is None or target[0] != register or target[1] < min(bits, 32):
        return computed
    mask = (1 << target[1]) - 1
    base, source = base_name(mnemonic), operands[0]
    if base == "pop" and len(operands) == 1:
        return Origin("loaded", instruction, MemoryOperand(None, 0, "rsp"))
    if len(operands) != 2:
        return computed
    if isinstance(source, MemoryOperand):
        if base in ("mov", "movabs") or EXTEND.match(mnemonic):
            return Origin("loaded", instruction, source)
        if base == "lea":
            if source.base in ("rip", "eip"):
                return Origin("constant", instruction, value=(source.address({}, instruction.next_address) or 0) & mask)
            return Origin("computed", instruction, source)
    elif isinstance(source, int):
        value = source & mask
        if base in ("mov", "movabs") or base == "or" and value == mask or base == "and" and value == 0:
            return Origin("constant", instruction, value=value)
    elif base in ("xor", "sub") and source == operands[1]:
        return Origin("constant", instruction, value=0)
    return computed
