"""The control flow of one function: its parts, its blocks, and where each of them may lead."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable

from gdbext.arch.protocol import Instruction, MemoryOperand
from gdbext.proofs.machine_code import MachineCode, TooLarge
from gdbext.worklist import walk

#: Bounds: separate parts of one function, and entries of a jump table.
MAX_PARTS, _MAX_TABLE = 4, 512
#: Most instructions before an exchange that may have made the value that it stores.
_MAX_STRAIGHT = 12


class ControlFlow:
    """The instructions of a function, with all of its parts that are known so far."""

    def __init__(self, code: MachineCode, start: int) -> None:
        self._code = code
        self.start = start
        self.instructions: dict[int, Instruction] = {}
        #: The first instructions of blocks; a block ends before the next one.
        self.leaders = {start}
        self.parts: list[tuple[int, int]] = []
        #: Each instruction by the address after it, and the targets of jumps.
        self._previous: dict[int, Instruction] = {}
        self._targets: set[int] = set()
        #: Possible jump tables: the addresses that the code computes.
        self._tables: set[int] = set()
        #: The blocks that a jump through a table leads to, by the address of the jump.
        self._cases: dict[int, set[int]] = {}

    def add_part(self, start: int, end: int) -> None:
        """Add a range of the function's code.

        :raises GdbextError: the function has too many parts, or code that is too large or not readable.
        """
        if len(self.parts) >= MAX_PARTS:
            raise TooLarge("the function has too many parts")
        self.parts.append((start, end))
        for instruction in self._code.instructions(start, end):
            self.instructions[instruction.address] = self._previous[instruction.next_address] = instruction
            target = instruction.jump_target
            if target is not None:
                self.leaders.add(target)
                self._targets.add(target)
            if not instruction.falls_through or instruction.kind == "jump":
                self.leaders.add(instruction.next_address)
            for made in instruction.assignments() or ():
                place = made.source.simple(instruction.next_address) if isinstance(made.source, MemoryOperand) else None
                if made.is_address and place is not None and place[0] is None:
                    self._tables.add(place[1])

    def contains(self, pc: int) -> bool:
        """Whether a program counter is in one of the function's parts."""
        return any(start <= pc < end for start, end in self.parts)

    def at(self, pc: int) -> Instruction | None:
        """The instruction that covers a program counter."""
        return next((each for each in self.instructions.values() if each.address <= pc < each.next_address), None)

    def straight_before(self, address: int) -> list[Instruction]:
        """The instructions that always run directly before that at an address, a few of them."""
        found: list[Instruction] = []
        while len(found) < _MAX_STRAIGHT and address not in self._targets:
            before = self._previous.get(address)
            if before is None or not before.falls_through:
                break
            found.append(before)
            address = before.address
        return found[::-1]

    def following(self, block: int) -> Iterable[int]:
        """The blocks that a block leads to, the last one first."""
        at = block
        while at in self.instructions:
            instruction = self.instructions[at]
            next_block = instruction.next_address
            if not instruction.falls_through or instruction.kind == "jump" or next_block in self.leaders:
                target = instruction.jump_target
                found = {*self._cases.get(at, ()), *((target,) if target is not None else ()),
                         *((next_block,) if instruction.falls_through else ())}
                return sorted(found, reverse=True)
            at = next_block
        return ()

    def unreached(self, blocks: Iterable[int]) -> int | None:
        """The first instruction that no path from some blocks leads to, also counting paths that are never taken."""
        def following(at: int) -> Iterable[int]:
            instruction = self.instructions.get(at)
            if instruction is None:
                return ()
            target = instruction.jump_target
            return (*((target,) if target is not None else ()),
                    *((instruction.next_address,) if instruction.falls_through else ()))

        covered = set(walk(blocks, following))
        return min((address for address, instruction in self.instructions.items()
                    if address not in covered and instruction.kind != "filler"), default=None)

    # -- jump tables -----------------------------------------------------------------------------------------------

    def cases(self, jump: Instruction, constants: Callable[[], Collection[int]]) -> Collection[int]:
        """The targets of a jump through a table, which begin blocks then; none if there is no table.

        Without a comparison before the jump, the table ends at the first entry that is not an instruction's address.

        :param constants: the constants in registers and memory before the jump.
        """
        memory, count = jump.memory, self._count(jump)
        targets: set[int] = set()
        if memory is not None and memory.index is not None and memory.base is None:
            table = memory.displacement & 0xFFFFFFFF  # of addresses, in code that is not position-independent
            targets.update(self._entries(lambda i: self._code.slot(table + 8 * i), count))
        elif memory is None:
            # of distances from the table, whose address is still in a register
            for table in self._tables.intersection(constants()):
                targets.update(self._entries(functools.partial(self._code.table_entry, table), count))
        self._targets |= targets
        self._cases[jump.address] = targets
        self.leaders |= targets
        return targets

    def _entries(self, read: Callable[[int], int | None], count: int | None) -> list[int]:
        found: list[int] = []
        for i in range(_MAX_TABLE if count is None else count):
            target = read(i)
            if target is None or target not in self.instructions:
                if count is not None:
                    raise TooLarge("the target of a jump is unknown")
                break  # after the end of the table
            found.append(target)
        return found

    def _count(self, jump: Instruction) -> int | None:
        """The number of entries in the table of a jump, from a comparison shortly before it."""
        before = [self.instructions[at] for at in sorted(self.instructions) if jump.address - 64 <= at < jump.address]
        for first, second in zip(before, before[1:]):
            limit = first.comparison[0] if first.comparison is not None else None
            if (second.condition in ("above", "not above") and isinstance(limit, int) and 0 <= limit < _MAX_TABLE):
                return limit + 1
        return None
