"""Where the value of a register came from, in the code of one function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from gdbext.arch.protocol import Change, Instruction, Origin
from gdbext.arch.x86_64.instructions import EXTEND, NO_INDEX, MemoryOperand, base_name, canonical, part
from gdbext.arch.x86_64.registers import ARGUMENTS, GENERAL

# the function's first instruction and code that no known jump leads to have these in place of a predecessor
_ENTRY, _UNKNOWN = -1, -2


class _Flow:
    """The order in which instructions may run; a place is the index of an instruction."""

    def __init__(self, instructions: Sequence[Instruction]) -> None:
        self.instructions = instructions
        places = {instruction.address: i for i, instruction in enumerate(instructions)}
        #: place -> places of the jumps that lead to it
        self.jumps: dict[int, list[int]] = {}
        indirect = []
        for i, instruction in enumerate(instructions):
            target = instruction.jump_target
            if target is None:
                indirect += [i] if instruction.kind == "jump" else []
            elif target in places:
                self.jumps.setdefault(places[target], []).append(i)
        #: whether there is a jump that may lead anywhere in the function, such as that of a ``switch``
        self.computed = not all(self._is_tail_call(i) for i in indirect)

    def _is_tail_call(self, at: int) -> bool:
        """Whether an indirect jump calls a function, rather than belongs to a ``switch``.

        The jump of a ``switch`` goes through a table, or to a sum of a table's entry and its address; compilers mark it
        with ``notrack`` if indirect branches are tracked. A call goes to a pointer at a fixed place, and often
        follows the removal of the stack frame.
        """
        instruction = self.instructions[at]
        if "notrack" in instruction.prefixes:
            return False
        if instruction.memory is not None:
            return instruction.memory.index is None
        whole = part(instruction.operands[0]) if instruction.operands else None
        above = self.above(at)
        if whole is None or above is None:
            return False
        if above >= 0 and "rsp" in self.instructions[above].written:
            return True
        place = self._straight(at, whole[0])
        if place is None or place == _UNKNOWN:
            return False
        if place == _ENTRY:
            return whole[0] in ARGUMENTS
        made = _made(self.instructions[place], whole[0], 64)
        if made is None or made.operand is None:
            return made is not None and made.kind == "result"
        return made.kind == "loaded" and made.operand.index is None

    def above(self, at: int) -> int | None:
        """The place from which straight code comes to a place."""
        if at == 0:
            return _ENTRY
        before = self.instructions[at - 1]
        is_adjacent = at == len(self.instructions) or before.next_address == self.instructions[at].address
        return at - 1 if before.falls_through and is_adjacent and not self._is_padding(at - 1) else None

    def _is_padding(self, at: int) -> bool:
        """Whether an instruction is filler after one that does not fall through."""
        while self.instructions[at].kind == "filler" and at not in self.jumps and at > 0:
            at -= 1
            if not self.instructions[at].falls_through:
                return True
        return False

    def before(self, at: int) -> list[int]:
        """All places from which a place is reached."""
        above = self.above(at)
        return [*self.jumps.get(at, ()), *([above] if above is not None else [])] or [_UNKNOWN]

    def definition(self, index: int, register: str) -> tuple[int, bool] | None:
        """(place of the instruction that set a register, or _ENTRY; whether that is the only one) before a place."""
        found: set[int] = set()
        seen = {index}
        todo = [index]
        while todo:
            for place in self.before(todo.pop()):
                if self._sets(place, register):
                    found.add(place)
                elif place not in seen:
                    seen.add(place)
                    todo.append(place)
        straight = self._straight(index, register)
        if straight is None and len(found) == 1:
            straight = next(iter(found))
        if straight is None or straight == _UNKNOWN:
            return None
        certain = found == {straight}
        if certain and self.computed:
            certain = straight < index and index not in self.jumps and not any(
                i in self.jumps or self.instructions[i].kind == "jump" for i in range(straight + 1, index))
        return straight, certain

    def _straight(self, index: int, register: str) -> int | None:
        """The definition that straight code before a place leads to; where that ends, the only jump to there."""
        at, seen = index, set()
        while at not in seen:
            seen.add(at)
            before = self.above(at)
            if before is None:
                jumps = self.jumps.get(at, ())
                if len(jumps) != 1:
                    return None
                before = jumps[0]
            if self._sets(before, register):
                return before
            at = before
        return None

    def _sets(self, place: int, register: str) -> bool:
        return place < 0 or register in self.instructions[place].written

    def between(self, first: int, index: int) -> set[int]:
        """The places on all paths from one place to another that do not pass the first again."""
        after: dict[int, list[int]] = {}
        seen, todo = {index}, [index]
        while todo:
            at = todo.pop()
            for place in self.before(at):
                after.setdefault(place, []).append(at)
                if place >= 0 and place != first and place not in seen:
                    seen.add(place)
                    todo.append(place)
        passed: set[int] = set()
        todo = list(after.get(first, ()))
        while todo:
            at = todo.pop()
            # a path passes the use itself only if it leads from there back to it
            if at not in passed and at in after:
                passed.add(at)
                todo += after[at]
        return passed


def origin(instructions: Sequence[Instruction], index: int, register: str) -> Origin | None:
    """Find where the value came from that a register has before an instruction runs.

    :param instructions: of one function from its entry, in the order of their addresses. Jumps from elsewhere into it,
        such as from its part that a compiler moved away as cold, are not known.
    :param index: of the instruction; the number of instructions for the end.
    :param register: a general register or a part of it.
    :return: None if unknown. If several paths lead to the instruction, the origin is the value of straight code before
        it, and not `certain`.

    The targets of computed jumps (``switch``) are not known: in a function that has one, an origin is `certain` only
    if no jump is between it and the use.
    """
    bits = (part(register) or (register, 64))[1] or 16  # the parts without a size of their own are the second bytes
    name = canonical(register)
    if name not in GENERAL or not 0 <= index <= len(instructions):
        return None
    flow = _Flow(instructions)
    at, certain = index, True
    seen: set[tuple[int, str]] = set()
    while (at, name) not in seen:
        seen.add((at, name))
        definition = flow.definition(at, name)
        if definition is None:
            return None
        place, is_only = definition
        certain = certain and is_only
        if place == _ENTRY:
            number = ARGUMENTS.index(name) + 1 if name in ARGUMENTS else None
            return Origin("argument", argument=number, certain=certain) if number is not None else None
        instruction = instructions[place]
        moved = _moved(instruction, name)
        if moved is None or moved[2] < bits:
            found = _made(instruction, name, bits)
            if found is None or not isinstance(found.operand, MemoryOperand):
                return replace(found, certain=certain) if found is not None else None
            used = found.operand.registers
            changed = used & instruction.written or any(
                used & instructions[i].written for i in flow.between(place, index))
            return replace(found, certain=certain, operand_unchanged=not changed)
        name, bits, at = moved[0], min(bits, moved[1]), place
    return None


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
