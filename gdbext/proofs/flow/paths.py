"""Follows every path through one function's machine code, from its entry, and finds the locks held at each place."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING

from gdbext.arch.protocol import Instruction, MemoryOperand
from gdbext.errors import GdbextError, if_unreadable
from gdbext.holders.instruction_effects import InstructionEffects
from gdbext.holders.lock_state import (
    CONSTANT,
    NO_EFFECT,
    ONLY,
    Attempt,
    Effect,
    Held,
    Reach,
    State,
    Taken,
    TakenAt,
    Value,
    entry,
    in_both,
    meet,
)

if TYPE_CHECKING:
    from gdbext.holders.lock_flow import LockFlow

#: Bounds: separate parts of one function, entries of a jump table, rounds of the analysis for each block.
_MAX_PARTS, _MAX_TABLE, _MAX_ROUNDS = 4, 512, 24
#: Most instructions before an exchange that may have made the value that it stores.
_MAX_STRAIGHT = 12


class TooLarge(GdbextError):
    """The code exceeds the bounds of the analysis."""

@if_unreadable(None)
def analyse(flow: LockFlow, found: tuple[int, int], depth: int) -> Function | None:
    """Analyse a function; None if its code cannot be read, or exceeds the bounds."""
    function = Function(flow, found[0], depth)
    function.add_part(*found)
    function.settle()
    return function


class Function:
    """One function's code with the state before each of its blocks."""

    def __init__(self, flow: LockFlow, start: int, depth: int) -> None:
        self._flow = flow
        self._effects = InstructionEffects(flow, depth, self._straight)
        self._start = start
        self._code: dict[int, Instruction] = {}
        #: Each instruction by the address after it, and the targets of jumps.
        self._previous: dict[int, Instruction] = {}
        self._targets: set[int] = set()
        #: The first instructions of blocks; a block ends before the next one.
        self._leaders = {start}
        self._parts: list[tuple[int, int]] = []
        #: Possible jump tables: the addresses that the code computes.
        self._tables: set[int] = set()
        #: The blocks that a jump through a table leads to, by the address of the jump.
        self._cases_of: dict[int, set[int]] = {}
        self._states: dict[int, State] = {}
        #: The blocks whose states have changed, and the place of each block in the order in which they are followed.
        self._work: set[int] = set()
        self._order: dict[int, int] = {}
        #: Recorded after all states are settled: the states at the exits.
        self._settled = False
        self._exits: list[State] = []
        #: The blocks after each block, and those that a path to the function's end leads through.
        self._next: dict[int, set[int]] = {}
        self._ends: set[int] = set()
        self._returning: set[int] = set()
        self._at = start

    def settle(self) -> None:
        """Compute the state before each block, and add the parts and blocks that the states lead to."""
        for _ in range(2 * _MAX_PARTS):
            before = len(self._parts), len(self._leaders)
            self._compute_states()
            if before == (len(self._parts), len(self._leaders)):
                break
        else:
            raise TooLarge("the function has too many parts")
        self._settled = True
        for address in sorted(self._states):
            self._effects.block = address
            self._block(address)
        self._effects.block = None
        self._returning = self._find_returning()

    def _find_returning(self) -> set[int]:
        """The blocks from which a path leads to an end of the function."""
        before: dict[int, set[int]] = {}
        for address, following in self._next.items():
            for each in following:
                before.setdefault(each, set()).add(address)
        found: set[int] = set()
        left = [*self._ends]
        while left:
            address = left.pop()
            if address not in found:
                found.add(address)
                left.extend(before.get(address, ()))
        return found

    def add_part(self, start: int, end: int) -> None:
        """Add a range of the function's code."""
        if len(self._parts) >= _MAX_PARTS:
            raise TooLarge("the function has too many parts")
        self._parts.append((start, end))
        for instruction in self._flow.instructions(start, end):
            self._code[instruction.address] = self._previous[instruction.next_address] = instruction
            target = instruction.jump_target
            if target is not None:
                self._leaders.add(target)
                self._targets.add(target)
            if not instruction.falls_through or instruction.kind == "jump":
                self._leaders.add(instruction.next_address)
            for made in instruction.assignments() or ():
                place = made.source.simple(instruction.next_address) if isinstance(made.source, MemoryOperand) else None
                if made.is_address and place is not None and place[0] is None:
                    self._tables.add(place[1])

    def _compute_states(self) -> None:
        rounds = 0
        self._order = {}
        self._states = {self._start: State.at_entry(self._flow.cpu)}
        self._put(self._start)
        while True:
            while self._work:
                address = min(self._work, key=self._order.__getitem__)
                self._work.remove(address)
                rounds += 1
                if rounds > _MAX_ROUNDS * len(self._leaders):
                    raise TooLarge("the analysis does not end")
                if self._flow.is_late():
                    raise TooLarge("the time for all functions is over")
                self._block(address)
            # code without a jump to it handles exceptions; nothing is known at its start
            hidden = self._hidden()
            if hidden is None:
                return
            self._leaders.add(hidden)
            self._states[hidden] = State(self._flow.cpu, {}, self._states[self._start].bases)
            self._put(hidden)

    def _put(self, block: int) -> None:
        """Have a block followed, after those that lead to it without a loop: its state is then known sooner."""
        if block not in self._order:
            self._sort(block)
        self._work.add(block)

    def _sort(self, first: int) -> None:
        """Give a block, and all that it leads to, places in the order; those that have one keep it."""
        after: list[int] = []
        seen = {first}
        path = [(first, self._following(first))]
        while path:
            block, left = path[-1]
            following = next((each for each in left if each not in seen and each not in self._order), None)
            if following is None:
                after.append(block)
                path.pop()
            else:
                seen.add(following)
                path.append((following, self._following(following)))
        place = len(self._order)
        self._order.update((block, place + i) for i, block in enumerate(reversed(after)))

    def _following(self, block: int) -> Iterator[int]:
        """The blocks that a block leads to, the last one first."""
        at = block
        while at in self._code:
            instruction = self._code[at]
            next_block = instruction.next_address
            if not instruction.falls_through or instruction.kind == "jump" or next_block in self._leaders:
                target = instruction.jump_target
                found = {*self._cases_of.get(at, ()), *((target,) if target is not None else ()),
                         *((next_block,) if instruction.falls_through else ())}
                return iter(sorted(found, reverse=True))
            at = next_block
        return iter(())

    def _hidden(self) -> int | None:
        """The first instruction that no path leads to, also counting paths that are never taken."""
        covered: set[int] = set()
        leaders = list(self._states)
        while leaders:
            at: int | None = leaders.pop()
            while at in self._code and at not in covered:
                instruction = self._code[at]
                covered.add(at)
                if instruction.jump_target is not None:
                    leaders.append(instruction.jump_target)
                at = instruction.next_address if instruction.falls_through else None
        return min((address for address, instruction in self._code.items()
                    if address not in covered and instruction.kind != "filler"), default=None)

    def _block(self, leader: int) -> None:
        state, at, self._at = self._states[leader].copy(), leader, leader
        while at in self._code:
            instruction = self._code[at]
            is_taken = _is_taken(instruction, state)
            is_last = instruction.kind == "call" and self._never_returns(instruction, state)
            if is_taken is not False or instruction.kind != "jump":
                self._step(instruction, state)
            if not instruction.falls_through or is_taken or is_last:
                return
            if instruction.kind == "jump" and instruction.condition in ("equal", "unequal"):
                state.branch(instruction.condition == "unequal")
            at = instruction.next_address
            if at in self._leaders:
                self._reach(at, state)
                return

    def _never_returns(self, call: Instruction, state: State) -> bool:
        called = self._effects.called(call, state)
        return called is not None and self._flow.never_returns(called)

    def _reach(self, address: int, state: State) -> None:
        if self._settled:
            self._next.setdefault(self._at, set()).add(address)
            return
        if address not in self._code:
            return
        known = self._states.get(address)
        met = meet(address, known, state)
        if known is None or met is not known and not met.is_same(known):
            self._states[address] = met
            self._put(address)

    def _straight(self, address: int) -> list[Instruction]:
        """The instructions that always run directly before that at an address, a few of them."""
        found: list[Instruction] = []
        while len(found) < _MAX_STRAIGHT and address not in self._targets:
            before = self._previous.get(address)
            if before is None or not before.falls_through:
                break
            found.append(before)
            address = before.address
        return found[::-1]

    def contains(self, pc: int) -> bool:
        """Whether a program counter is in one of the function's parts."""
        return any(start <= pc < end for start, end in self._parts)

    def before(self, pc: int) -> State | None:
        """The state before the instruction that covers a program counter; None if there is no such instruction."""
        leader = max((address for address in self._states if address <= pc), default=None)
        if leader is None:
            return None
        state, at = self._states[leader].copy(), leader
        while at in self._code and (at == leader or at not in self._leaders):
            instruction = self._code[at]
            if at <= pc < instruction.next_address:
                return state
            if not instruction.falls_through:
                return None
            self._step(instruction, state)
            at = instruction.next_address
        return None

    def called_at(self, pc: int) -> int | None:
        """The function that the call at a program counter calls."""
        call = next((each for each in self._code.values() if each.address <= pc < each.next_address), None)
        state = self.before(pc)
        if call is None or call.kind != "call" or state is None:
            return None
        return self._effects.called(call, state)

    @property
    def acquired_by(self) -> Mapping[Value, int]:
        """The function that has acquired each lock, for messages."""
        return self._effects.acquired_by

    @property
    def given_back(self) -> Collection[Value]:
        """The locks that the function has acquired on every path to a release of them."""
        return self._effects.given_back

    def effect(self) -> Effect:
        """The effect of a call of the function when it has returned."""
        if not self._exits:
            return NO_EFFECT
        attempts = {self._attempt(state) for state in self._exits}
        results = {state.values.get(state.cpu.RESULT) for state in self._exits}
        result = results.pop() if len(results) == 1 else None
        acquires: Held | None = None
        guards: Held | None = None
        for state in self._exits:
            locks = {lock: released for lock, released in state.held.items() if self._is_passed(lock)}
            words = {place: state.held[value] for place, value in state.values.items()
                     if isinstance(place, Value) and value in state.held and self._is_passed(place)}
            acquires = in_both(acquires, locks)
            guards = in_both(guards, words)
        released = dict.fromkeys(lock for at, lock in self._effects.released if at in self._returning)
        releases = tuple(value for value in released if value is not None and self._is_passed(value))
        unknown = any(value is None or not self._is_passed(value) for value in released)
        return Effect(acquires or {}, guards or {}, releases, unknown,
                      attempts.pop() if len(attempts) == 1 else None,
                      result if result is not None and self._is_passed(result) else None, self._taken())

    def reach(self, depth: int) -> Reach:
        """What may happen to addresses that the function gets, on paths that return.

        :param depth: of the function's call.
        """
        unknown, uses = False, set(self._effects.used)
        stores = {to for at, to in self._effects.stored if at in self._returning}
        copies: set[str | None] = set()
        for at, called, arguments in self._effects.calls:
            found = self._flow.reach(called, depth + 1)
            uses.update(origin for name, origin in arguments.items() if origin is not None and name in found.uses)
            if at in self._returning:
                unknown = unknown or found.unknown
                stores |= self._effects.stores_of(found.stores, arguments)
                copied = self._effects.stores_of(found.copies, arguments)
                # memory of this function's own frame may contain what it got in registers
                if self._flow.cpu.STACK_POINTER in arguments.values():
                    stores |= copied
                else:
                    copies |= copied
        return Reach(unknown, frozenset(stores), frozenset(copies), frozenset(uses & {*self._flow.cpu.ARGUMENTS}))

    def passes(self, pc: int, lock: Value) -> bool:
        """Whether the call at a program counter gets the address of a lock that is held there."""
        state = self.before(pc)
        return state is None or self._effects.is_passed(lock, state)

    def _taken(self) -> tuple[Taken, ...]:
        """The locks that the function may hold when it returns, in terms of its arguments."""
        found: dict[TakenAt, Taken] = {}
        for i, state in enumerate(self._exits):
            for at, taken in state.taken.items():
                if taken.kept:
                    lock = taken.lock if taken.lock is not None and self._is_passed(taken.lock) else None
                    known = found.get(at)
                    found[at] = Taken(lock if known is None or known.lock == lock else None,
                                      taken.always and (known is not None and known.always or not i), True)
            for at in found.keys() - {at for at, taken in state.taken.items() if taken.kept}:
                found[at] = found[at]._replace(always=False)
        return tuple(dict.fromkeys(found.values()))

    def acquires_by_instruction(self, lock: Value) -> bool:
        """Whether an instruction of the function itself has acquired a lock that it returns with."""
        return any(taken.lock == lock and taken.kept and self._code[at].exchange is not None
                   for state in self._exits for (at, _), taken in state.taken.items())

    def keeps(self, pc: int, lock: Value) -> bool:
        """Whether the call at a program counter acquires a lock, and every path from there to an end keeps it."""
        found = [taken for state in self._exits for (at, _), taken in state.taken.items()
                 if at in self._code and at <= pc < self._code[at].next_address]
        return bool(found) and all(taken.lock == lock and taken.kept for taken in found)

    def _attempt(self, state: State) -> Attempt | None:
        """The attempt whose result a function returns."""
        result = state.values.get(state.cpu.RESULT)
        attempt = state.attempts.get(result.base) if result is not None and not result.offset else None
        return attempt if attempt is not None and self._is_passed(attempt[0]) else None

    def _is_passed(self, value: Value) -> bool:
        """Whether a value is a constant, or computed from an argument of the function."""
        return (value.base[0] == ONLY or value.base == CONSTANT
                or value.base[0] == "entry" and value.base[1] in self._flow.cpu.ARGUMENTS)

    # -- jumps and returns -----------------------------------------------------------------------------------

    def _step(self, instruction: Instruction, state: State) -> None:
        """Change a state as an instruction does, and continue where it leads."""
        self._effects.note_uses(instruction, state)
        if instruction.kind == "jump":
            self._jump(instruction, state)
        elif instruction.kind == "return":
            self._exit(state)
        else:
            self._effects.apply(instruction, state)

    def _jump(self, instruction: Instruction, state: State) -> None:
        target = instruction.jump_target
        leaves = state.values.get(state.cpu.STACK_POINTER) == entry(state.cpu.STACK_POINTER)
        if target is None:
            is_switch = self._switch(instruction, state)
            if leaves:
                self._effects.call(instruction, state, self._effects.called(instruction, state))
                self._exit(state)
            elif not is_switch:
                raise TooLarge("the target of a jump is unknown")
        elif self.contains(target):
            self._reach(target, _taken(instruction, state))
        elif leaves and not self._flow.is_part(target, self._parts) or self._flow.is_stub(target):
            outside = state.copy()
            self._effects.call(instruction, outside, target)
            self._exit(outside)
        else:  # a part that the compiler has put elsewhere
            part = self._flow.code.function_range(target)
            if part is None:
                raise TooLarge("a jump leads to code without a frame description")
            self.add_part(*part)
            self._leaders.add(target)
            self._reach(target, _taken(instruction, state))

    def _switch(self, instruction: Instruction, state: State) -> bool:
        """Follow a jump through a table to each of its entries; False if there is no table.

        Without a comparison before the jump, the table ends at the first entry that is not an instruction's address.
        """
        memory, count = instruction.memory, self._cases(instruction)
        targets: set[int] = set()
        if memory is not None and memory.index is not None and memory.base is None:
            table = memory.displacement & 0xFFFFFFFF  # of addresses, in code that is not position-independent
            targets.update(self._entries(lambda i: self._flow.slot(table + 8 * i), count))
        elif memory is None:
            # of distances from the table, whose address is still in a register
            known = {value.offset for value in state.values.values() if value.base == CONSTANT}
            for table in known & self._tables:
                targets.update(self._entries(functools.partial(self._flow.table_entry, table), count))
        self._targets |= targets
        self._cases_of[instruction.address] = targets
        for target in targets:
            self._leaders.add(target)
            self._reach(target, state)
        return bool(targets)

    def _entries(self, read: Callable[[int], int | None], count: int | None) -> list[int]:
        found: list[int] = []
        for i in range(_MAX_TABLE if count is None else count):
            target = read(i)
            if target is None or target not in self._code:
                if count is not None:
                    raise TooLarge("the target of a jump is unknown")
                break  # after the end of the table
            found.append(target)
        return found

    def _cases(self, jump: Instruction) -> int | None:
        """The number of entries in the table of a jump, from a comparison shortly before it."""
        before = sorted((each for each in self._code.values() if jump.address - 64 <= each.address < jump.address),
                        key=lambda each: each.address)
        for first, second in zip(before, before[1:]):
            limit = first.comparison[0] if first.comparison is not None else None
            if (second.condition in ("above", "not above") and isinstance(limit, int) and 0 <= limit < _MAX_TABLE):
                return limit + 1
        return None

    def _exit(self, state: State) -> None:
        if self._settled:
            self._exits.append(state.copy())
            self._ends.add(self._at)


def _taken(jump: Instruction, state: State) -> State:
    """The state at the target of a jump."""
    if jump.condition not in ("equal", "unequal") or state.compared is None:
        return state
    made = state.copy()
    made.branch(jump.condition == "equal")
    return made


def _is_taken(instruction: Instruction, state: State) -> bool | None:
    if state.is_zero is None or instruction.condition not in ("equal", "unequal"):
        return None
    return state.is_zero == (instruction.condition == "equal")
