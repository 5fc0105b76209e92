"""Applies one instruction to the known values of registers and memory, and to the held locks.

Jumps and returns are not here, but in `holders/function_flow.py`, which follows them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from gdbext.arch.protocol import Assignment, Exchange, Instruction, MemoryOperand
from gdbext.holders.lock_state import CONSTANT, NO_EFFECT, ONLY, Effect, Reach, State, Taken, Value
from gdbext.holders.pairs import Inlined

if TYPE_CHECKING:
    from gdbext.holders.lock_flow import LockFlow

#: Most locks that one call may acquire.
_MAX_TAKEN = 8
#: Stands for the register of a value that is a constant.
_CONSTANT = "constant"


class InstructionEffects:
    """Applies the instructions of one function.

    While `block` is the address of a block, what its instructions do is recorded with that address: `calls` with the
    register that contains each argument at the function's entry, the locks that they release but have not acquired, and
    the places to which they store; see `Reach`. `acquired_by` are the functions that have acquired locks.
    """

    def __init__(self, flow: LockFlow, depth: int) -> None:
        self._flow = flow
        self._depth = depth
        self.block: int | None = None
        self.calls: list[tuple[int, int | None, Mapping[str, str | None]]] = []
        self.released: list[tuple[int, Value | None]] = []
        self.stored: list[tuple[int, str | None]] = []
        self.acquired_by: dict[Value, int] = {}

    def apply(self, instruction: Instruction, state: State) -> None:
        """Change a state as an instruction does that is neither a jump nor a return."""
        if instruction.kind == "call":
            self.call(instruction, state, self.called(instruction, state))
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
            if value.base != CONSTANT:
                self._note_store(at, state)
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
                at = self._address(access.operand, instruction, state)
                state.store(at, access.size, None)
                if access.size is None or access.size >= 8:
                    self._note_store(at, state)
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

    def _lose_reached(self, reach: Reach, arguments: Mapping[str, Value], state: State) -> None:
        """Lose the locks whose addresses a completed call has passed to code that is not known, or has stored."""
        origins = {name: self._origin(value, state) for name, value in arguments.items()}
        if reach.unknown:
            self._lose_passed(arguments.values(), state)
        elif self.stores_of(reach, origins):
            self._lose_passed(arguments.values(), state, in_memory=reach is self._flow.copying)

    def stores_of(self, reach: Reach, origins: Mapping[str, str | None]) -> frozenset[str | None]:
        """The places outside of the frame to which a call stores; see `Reach`.

        :param origins: the register that contains each argument at the function's entry; see `_origin`.
        """
        found = {origins.get(name) if name is not None else None for name in reach.stores}
        if _CONSTANT in found and reach is not self._flow.copying:
            found.add(None)
        return frozenset(found - {_CONSTANT, self._flow.cpu.STACK_POINTER})

    def _lose_passed(self, arguments: Iterable[Value], state: State, in_memory: bool = False) -> None:
        """Lose the locks whose addresses a call gets, by arguments or by memory that arguments point to.

        :param in_memory: only by memory.
        """
        lowest = _lowest(arguments, state)
        for place, value in [*state.values.items()]:
            if (place in state.cpu.ARGUMENTS and not in_memory if isinstance(place, str) else
                    not state.is_stack(place) or lowest is not None and place.offset >= lowest):
                state.lose(value)

    def is_passed(self, lock: Value, state: State) -> bool:
        """Whether the call at a place gets the address of a lock that is held there."""
        state = state.copy()
        self._lose_passed([state.values[name] for name in state.cpu.ARGUMENTS if name in state.values], state)
        return lock not in state.held

    def _note_store(self, at: Value | None, state: State) -> None:
        """Record that an instruction stores a value."""
        origin = self._origin(at, state)
        if self.block is not None and origin != state.cpu.STACK_POINTER:
            self.stored.append((self.block, None if origin == _CONSTANT else origin))

    def _origin(self, value: Value | None, state: State) -> str | None:
        """The register at the function's entry from which a value is computed, or `_CONSTANT`; None for others."""
        if value is None or value.base[0] != "entry":
            return _CONSTANT if value is not None and value.base == CONSTANT else None
        return str(value.base[1])

    # -- calls -----------------------------------------------------------------------------------------------

    def called(self, instruction: Instruction, state: State) -> int | None:
        """The function that a call or jump goes to; None if it is not known."""
        operand = instruction.operands[0] if instruction.operands else None
        if isinstance(operand, int):
            return operand
        if isinstance(operand, str):  # loaded once for several calls
            value = state.values.get(operand)
            return value.offset if value is not None and value.base == CONSTANT else None
        place = operand.simple(instruction.next_address) if isinstance(operand, MemoryOperand) else None
        return self._flow.slot(place[1]) if place is not None and place[0] is None else None

    def call(self, instruction: Instruction, state: State, called: int | None) -> None:
        """Change a state as a call does, or a jump in place of one.

        :param called: the function that it calls; None if it is not known.
        """
        effect = self._flow.effect(called, self._depth + 1) if called is not None else NO_EFFECT
        if self.block is not None:
            self.calls.append((self.block, called, {
                name: self._origin(state.values.get(name), state) for name in state.cpu.ARGUMENTS}))
        arguments = {name: state.values[name] for name in state.cpu.ARGUMENTS if name in state.values}
        if not any(effect is known for known in self._flow.primitive_effects):
            if self._flow.inlined is not None:
                state.called |= {called}
                if state.held:
                    self._lose_reached(self._flow.reach(called, self._depth + 1), arguments, state)
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
        if self.block is not None and (lock is None or lock not in state.held):
            self.released.append((self.block, lock))
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


def _lowest(arguments: Iterable[Value], state: State) -> int | None:
    """The lowest place in the function's own frame that an argument points to."""
    return min((value.offset for value in arguments if state.is_stack(value)), default=None)


def _translate(value: Value, arguments: Mapping[str, Value]) -> Value | None:
    """A value of a callee in terms of its caller; None if it depends on more than the arguments."""
    if value.base == CONSTANT or value.base[0] == ONLY:
        return value
    name = value.base[1]
    return arguments[name].plus(value.offset) if isinstance(name, str) and name in arguments else None
