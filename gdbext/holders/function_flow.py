"""Follows every path through one function's machine code, from its entry, and finds the locks held at each place."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from gdbext.arch.protocol import Assignment, Exchange, Instruction, MemoryOperand
from gdbext.errors import GdbextError, if_unreadable
from gdbext.holders.lock_state import (
    CONSTANT,
    NO_EFFECT,
    ONLY,
    Attempt,
    Effect,
    Held,
    State,
    Taken,
    TakenAt,
    Value,
    entry,
    in_both,
    meet,
)
from gdbext.holders.pairs import Inlined

if TYPE_CHECKING:
    from gdbext.holders.lock_flow import LockFlow

#: Bounds: separate parts of one function, entries of a jump table, rounds of the analysis for each block.
_MAX_PARTS, _MAX_TABLE, _MAX_ROUNDS = 4, 512, 24
#: Most locks that one call may acquire.
_MAX_TAKEN = 8


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
        self._depth = depth
        self._start = start
        self._code: dict[int, Instruction] = {}
        #: The first instructions of blocks; a block ends before the next one.
        self._leaders = {start}
        self._parts: list[tuple[int, int]] = []
        #: Possible jump tables: the addresses that the code computes.
        self._tables: set[int] = set()
        self._states: dict[int, State] = {}
        self._work: set[int] = set()
        #: Recorded after all states are settled: the states at the exits, and the released locks.
        self._settled = False
        self._exits: list[State] = []
        self._released: list[tuple[int, Value | None]] = []
        self._calls: list[tuple[int, int | None]] = []
        #: The blocks after each block, and those that a path to the function's end leads through.
        self._next: dict[int, set[int]] = {}
        self._ends: set[int] = set()
        self._returning: set[int] = set()
        self._at = start
        #: The function that has acquired each lock, for messages.
        self.acquired_by: dict[Value, int] = {}

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
            self._block(address)
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
            self._code[instruction.address] = instruction
            target = instruction.jump_target
            if target is not None:
                self._leaders.add(target)
            if not instruction.falls_through or instruction.kind == "jump":
                self._leaders.add(instruction.next_address)
            for made in instruction.assignments() or ():
                place = made.source.simple(instruction.next_address) if isinstance(made.source, MemoryOperand) else None
                if made.is_address and place is not None and place[0] is None:
                    self._tables.add(place[1])

    def _compute_states(self) -> None:
        rounds = 0
        self._states = {self._start: State.at_entry(self._flow.cpu)}
        self._work = {self._start}
        while True:
            while self._work:
                address = min(self._work)
                self._work.remove(address)
                rounds += 1
                if rounds > _MAX_ROUNDS * len(self._leaders):
                    raise TooLarge("the analysis does not end")
                self._block(address)
            # code without a jump to it handles exceptions; nothing is known at its start
            hidden = self._hidden()
            if hidden is None:
                return
            self._leaders.add(hidden)
            self._states[hidden] = State(self._flow.cpu, {})
            self._work.add(hidden)

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
            is_last = instruction.kind == "call" and self._never_returns(self._called(instruction, state))
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

    def _reach(self, address: int, state: State) -> None:
        if self._settled:
            self._next.setdefault(self._at, set()).add(address)
            return
        if address not in self._code:
            return
        known = self._states.get(address)
        met = meet(address, known, state)
        if known is None or not met.is_same(known):
            self._states[address] = met
            self._work.add(address)

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
        return self._called(call, state) if call is not None and call.kind == "call" and state is not None else None

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
        released = dict.fromkeys(lock for at, lock in self._released if at in self._returning)
        releases = tuple(value for value in released if value is not None and self._is_passed(value))
        unknown = any(value is None or not self._is_passed(value) for value in released)
        return Effect(acquires or {}, guards or {}, releases, unknown,
                      attempts.pop() if len(attempts) == 1 else None,
                      result if result is not None and self._is_passed(result) else None, self._taken())

    def calls(self) -> frozenset[int | None]:
        """The functions that it calls on paths that return; None is one among them if a call goes anywhere."""
        return frozenset(called for at, called in self._calls if at in self._returning)

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

    def _attempt(self, state: State) -> Attempt | None:
        """The attempt whose result a function returns."""
        result = state.values.get(state.cpu.RESULT)
        attempt = state.attempts.get(result.base) if result is not None and not result.offset else None
        return attempt if attempt is not None and self._is_passed(attempt[0]) else None

    def _is_passed(self, value: Value) -> bool:
        """Whether a value is a constant, or computed from an argument of the function."""
        return (value.base[0] == ONLY or value.base == CONSTANT
                or value.base[0] == "entry" and value.base[1] in self._flow.cpu.ARGUMENTS)

    # -- one instruction -------------------------------------------------------------------------------------

    def _step(self, instruction: Instruction, state: State) -> None:
        """Change a state as an instruction does."""
        if instruction.kind == "call":
            self._call(instruction, state, self._called(instruction, state))
        elif instruction.kind == "jump":
            self._jump(instruction, state)
        elif instruction.kind == "return":
            self._exit(state)
        elif instruction.comparison is not None:
            self._compare(instruction, *instruction.comparison, state)
        else:
            assignments = instruction.assignments()
            for assignment in assignments or ():
                self._assign(assignment, instruction, state)
            if assignments is None:
                self._other(instruction, state)

    def _compare(self, instruction: Instruction, limit: object, compared: object, state: State) -> None:
        state.flags()
        part = instruction.part(instruction.operands[-1])
        if limit == 0 and compared is not None:
            value = self._source(compared, instruction, state, "compared")
            state.flags(value.offset == 0 if value.base == CONSTANT else None,
                        value.base if not value.offset else None)
        elif limit == 0 and part is not None and part[1]:
            # a result narrower than the register, whose upper part means nothing
            known = state.values.get(part[0])
            if known is not None and known.base == CONSTANT:
                state.flags(known.offset & (1 << part[1]) - 1 == 0)
            elif known is not None and not known.offset and known.base in state.attempts:
                state.flags(compared=known.base)

    def _address(self, operand: MemoryOperand, instruction: Instruction, state: State) -> Value | None:
        place = operand.simple(instruction.next_address)
        if place is None:
            return None
        register, distance = place
        return Value(CONSTANT, distance) if register is None else state.register(
            register, instruction.address).plus(distance)

    def _load(self, operand: MemoryOperand, instruction: Instruction, state: State, register: str) -> Value:
        at = self._address(operand, instruction, state)
        if at is None:
            return state.fresh(instruction.address, register)
        if at in state.values:
            return state.values[at]
        word = self._flow.slot(at.offset) if at.base == CONSTANT else None
        if word is not None:
            return Value(CONSTANT, word)
        value = state.fresh(instruction.address, register)
        state.values[at] = value
        return value

    def _assign(self, made: Assignment, instruction: Instruction, state: State) -> None:
        if made.sets_flags:
            state.flags()
        name = made.target if isinstance(made.target, str) else ""
        value: Value | None
        if made.is_address and isinstance(made.source, MemoryOperand):
            value = self._address(made.source, instruction, state) or state.fresh(instruction.address, name)
        else:
            value = self._source(made.source, instruction, state, name)
        if isinstance(made.target, MemoryOperand):
            at = self._address(made.target, instruction, state)
            state.store(at, 8, value)
            if self._flow.inlined is not None and (at is None or not state.is_stack(at)):
                state.lose(value)
        else:
            state.values[name] = value.plus(made.offset)

    def _source(self, source: object, instruction: Instruction, state: State, register: str = "") -> Value:
        if isinstance(source, int):
            return Value(CONSTANT, source)
        if isinstance(source, MemoryOperand):
            return self._load(source, instruction, state, register or "pushed")
        if isinstance(source, str) and source in state.cpu.GENERAL:
            return state.register(source, instruction.address)
        return state.fresh(instruction.address, register or "pushed")

    def _other(self, instruction: Instruction, state: State) -> None:
        """Apply any other instruction, after which all that it writes is unknown."""
        if self._flow.inlined is not None:
            exchange = instruction.exchange
            if exchange is not None and exchange.size == self._flow.inlined.size:
                self._exchange(exchange, self._flow.inlined, instruction, state)
                return
            self._lose_used(instruction, state)
        wanted = instruction.stored_condition
        attempt = state.attempts.get(state.compared) if state.compared is not None else None
        if wanted is not None and state.is_zero is not None:
            # the upper part of the register means nothing
            state.values[wanted[0]] = Value(CONSTANT, int(state.is_zero == (wanted[1] == "equal")))
            return
        if wanted is not None and attempt is not None:
            made = state.fresh(instruction.address, wanted[0])
            state.values[wanted[0]] = made
            state.attempts[made.base] = attempt[0], attempt[1] != (wanted[1] == "equal")
            return
        state.flags()
        if not instruction.operands and len(instruction.text.split()) > len(instruction.prefixes) + 1:
            state.values = {}  # operands that are not parsed
            return
        for access in instruction.accesses():
            if access.kind == "write":
                state.store(self._address(access.operand, instruction, state), access.size, None)
        for name in instruction.written:
            state.values.pop(name, None)

    # -- locks that atomic instructions acquire -------------------------------------------------------------------

    def _exchange(self, exchange: Exchange, inlined: Inlined, instruction: Instruction, state: State) -> None:
        """Apply an exchange, which may acquire or release a lock."""
        lock = self._address(exchange.operand, instruction, state)
        mask = (1 << 8 * exchange.size) - 1
        stored, compared = state.values.get(exchange.stored), state.values.get(exchange.old)
        acquires = (stored is not None and stored.base == CONSTANT and stored.offset & mask in inlined.acquired
                    and (not exchange.compares or compared is not None and compared.base == CONSTANT
                         and not compared.offset & mask))
        if not (acquires and lock is not None) and not (exchange.compares and inlined.by_exchange_only):
            self._release_lock(lock, state)
        state.store(lock, exchange.size, None)
        old = state.values[exchange.old] = state.fresh(instruction.address, exchange.old)
        state.flags()
        if acquires and lock is not None:
            state.attempts[old.base] = lock, True
            state.taken[instruction.address, 0] = Taken(lock, True, True)
            if exchange.compares:
                state.flags(compared=old.base)

    def _lose_used(self, instruction: Instruction, state: State) -> None:
        """Lose the locks whose addresses an instruction uses in a way that is not followed."""
        for operand in instruction.operands:
            if isinstance(operand, str):
                state.lose(state.values.get(operand))
        for access in instruction.accesses():
            at = self._address(access.operand, instruction, state) if access.kind == "read" else None
            if at is not None and state.is_stack(at):
                size = access.size or 64
                for place, value in [*state.values.items()]:
                    if (isinstance(place, Value) and state.is_stack(place)
                            and place.offset < at.offset + size and at.offset < place.offset + 8):
                        state.lose(value)

    def _lose_passed(self, arguments: Iterable[Value], state: State) -> None:
        """Lose the locks whose addresses a call gets, by arguments or by memory that arguments point to.

        It may call any function, such as one that releases them.
        """
        lowest = _lowest(arguments, state)
        for place, value in [*state.values.items()]:
            if (place in state.cpu.ARGUMENTS if isinstance(place, str) else
                    not state.is_stack(place) or lowest is not None and place.offset >= lowest):
                state.lose(value)

    # -- calls, jumps, returns -------------------------------------------------------------------------------

    def _never_returns(self, called: int | None) -> bool:
        return called is not None and self._flow.never_returns(called)

    def _called(self, instruction: Instruction, state: State) -> int | None:
        operand = instruction.operands[0] if instruction.operands else None
        if isinstance(operand, int):
            return operand
        if isinstance(operand, str):  # loaded once for several calls
            value = state.values.get(operand)
            return value.offset if value is not None and value.base == CONSTANT else None
        place = operand.simple(instruction.next_address) if isinstance(operand, MemoryOperand) else None
        return self._flow.slot(place[1]) if place is not None and place[0] is None else None

    def _call(self, instruction: Instruction, state: State, called: int | None) -> None:
        effect = self._flow.effect(called, self._depth + 1) if called is not None else NO_EFFECT
        if self._settled:
            self._calls.append((self._at, called))
        arguments = {name: state.values[name] for name in state.cpu.ARGUMENTS if name in state.values}
        if not any(effect is known for known in self._flow.primitive_effects):
            if state.held and self._flow.inlined is not None and self._flow.calls_unknown(called, self._depth + 1):
                self._lose_passed(arguments.values(), state)
            self._call_writes(arguments.values(), state)
        self._release(effect, arguments, state)
        self._acquire(effect, arguments, state, instruction.address, called)
        for name in state.cpu.CALLER_SAVED:
            state.values.pop(name, None)
        state.flags()
        result = _translate(effect.result, arguments) if effect.result is not None else None
        if result is not None:
            state.values[state.cpu.RESULT] = result
        lock = _translate(effect.attempt[0], arguments) if effect.attempt is not None else None
        if effect.attempt is not None and lock is not None and called is not None:
            self.acquired_by[lock] = called
            made = state.values[state.cpu.RESULT] = state.fresh(instruction.address, state.cpu.RESULT)
            state.attempts[made.base] = lock, effect.attempt[1]

    def _call_writes(self, arguments: Iterable[Value], state: State) -> None:
        """Forget the memory that a call may change: all but the own frame below the lowest pointer argument."""
        lowest = _lowest(arguments, state)
        for place in [place for place in state.values if isinstance(place, Value)]:
            if not state.is_stack(place) or lowest is not None and place.offset >= lowest:
                del state.values[place]

    def _release(self, effect: Effect, arguments: Mapping[str, Value], state: State) -> None:
        released: list[Value | None] = [_translate(value, arguments) for value in effect.releases]
        if effect.releases_unknown:
            released.append(None)
        for lock in released:
            self._release_lock(lock, state)

    def _release_lock(self, lock: Value | None, state: State) -> None:
        if self._settled and (lock is None or lock not in state.held):
            self._released.append((self._at, lock))
        state.release(lock)

    def _acquire(self, effect: Effect, arguments: Mapping[str, Value], state: State, address: int,
                 called: int | None) -> None:
        for lock, released in effect.acquires.items():
            known = _translate(lock, arguments)
            if known is not None:
                state.held[known] = released
                if called is not None:
                    self.acquired_by[known] = called
        taken = effect.taken or tuple(Taken(lock, True, True) for lock in effect.acquires)
        if effect.attempt is not None and not effect.taken:
            taken += Taken(effect.attempt[0], True, True),  # dropped where it has failed
        for number, each in enumerate(taken[:_MAX_TAKEN]):
            state.taken[address, number] = each._replace(
                lock=_translate(each.lock, arguments) if each.lock is not None else None)
        for word, released in effect.guards.items():
            at = _translate(word, arguments)
            if at is not None:
                state.values[at] = state.fresh(address, at)
                state.held[state.values[at]] = released

    def _jump(self, instruction: Instruction, state: State) -> None:
        target = instruction.jump_target
        leaves = state.values.get(state.cpu.STACK_POINTER) == entry(state.cpu.STACK_POINTER)
        if target is None:
            is_switch = self._switch(instruction, state)
            if leaves:
                self._call(instruction, state, self._called(instruction, state))
                self._exit(state)
            elif not is_switch:
                raise TooLarge("the target of a jump is unknown")
        elif self.contains(target):
            self._reach(target, _taken(instruction, state))
        elif leaves and not self._flow.is_part(target, self._parts) or self._flow.is_stub(target):
            outside = state.copy()
            self._call(instruction, outside, target)
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


def _lowest(arguments: Iterable[Value], state: State) -> int | None:
    """The lowest place in the function's own frame that an argument points to."""
    return min((value.offset for value in arguments if state.is_stack(value)), default=None)


def _translate(value: Value, arguments: Mapping[str, Value]) -> Value | None:
    """A value of a callee in terms of its caller; None if it depends on more than the arguments."""
    if value.base == CONSTANT or value.base[0] == ONLY:
        return value
    name = value.base[1]
    return arguments[name].plus(value.offset) if isinstance(name, str) and name in arguments else None


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
