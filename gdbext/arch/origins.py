"""Where the value of a register came from, in the code of one function, by the rules of a processor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from gdbext.arch.protocol import Instruction, Origin
from gdbext.record import record

# the function's first instruction and code that no known jump leads to have these in place of a predecessor
_ENTRY, _UNKNOWN = -1, -2


@record
class Rules:
    """What single instructions of a processor do to a register.

    `moved` returns (source, bits that are moved, bits that are set) if an instruction only moves another register into
    this one. `made` returns the origin of a value that an instruction made of at least so many bits.
    """

    arguments: tuple[str, ...]
    stack_pointer: str
    moved: Callable[[Instruction, str], tuple[str, int, int] | None]
    made: Callable[[Instruction, str, int], Origin | None]


class _Flow:
    """The order in which instructions may run; a place is the index of an instruction."""

    def __init__(self, instructions: Sequence[Instruction], rules: Rules) -> None:
        self.instructions = instructions
        self._rules = rules
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
        whole = instruction.part(instruction.operands[0]) if instruction.operands else None
        above = self.above(at)
        if whole is None or above is None:
            return False
        if above >= 0 and self._rules.stack_pointer in self.instructions[above].written:
            return True
        place = self._straight(at, whole[0])
        if place is None or place == _UNKNOWN:
            return False
        if place == _ENTRY:
            return whole[0] in self._rules.arguments
        made = self._rules.made(self.instructions[place], whole[0], 64)
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


def origin(instructions: Sequence[Instruction], index: int, name: str, bits: int, rules: Rules) -> Origin | None:
    """Find where the value came from that a register has before an instruction runs.

    :param instructions: of one function from its entry, in the order of their addresses. Jumps from elsewhere into it,
        such as from its part that a compiler moved away as cold, are not known.
    :param index: of the instruction; the number of instructions for the end.
    :param name: a whole general register.
    :param bits: how many of its lowest bits matter.
    :return: None if unknown. If several paths lead to the instruction, the origin is the value of straight code before
        it, and not `certain`.

    The targets of computed jumps (``switch``) are not known: in a function that has one, an origin is `certain` only
    if no jump is between it and the use.
    """
    if not 0 <= index <= len(instructions):
        return None
    flow = _Flow(instructions, rules)
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
            number = rules.arguments.index(name) + 1 if name in rules.arguments else None
            return Origin("argument", argument=number, certain=certain) if number is not None else None
        instruction = instructions[place]
        moved = rules.moved(instruction, name)
        if moved is None or moved[2] < bits:
            found = rules.made(instruction, name, bits)
            if found is None or found.operand is None:
                return replace(found, certain=certain) if found is not None else None
            used = found.operand.registers
            changed = used & instruction.written or any(
                used & instructions[i].written for i in flow.between(place, index))
            return replace(found, certain=certain, operand_unchanged=not changed)
        name, bits, at = moved[0], min(bits, moved[1]), place
    return None
