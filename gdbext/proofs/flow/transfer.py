"""Applies one instruction to the known values of registers and memory, and to the held locks.

Jumps and returns are not here, but in `holders/function_flow.py`, which follows them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from gdbext.arch.protocol import Access, Assignment, Exchange, Instruction, MemoryOperand
from gdbext.holders.lock_state import CONSTANT, NO_EFFECT, ONLY, Effect, State, Taken, Value, entry
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
    the places to which they store. `used` are the arguments that they read; see `Reach`. `acquired_by` are the
    functions that have acquired locks.

    :param before: the instructions that always run directly before that at an address.
    """

    def __init__(self, flow: LockFlow, depth: int, before: Callable[[int], Sequence[Instruction]]) -> None:
        self._flow = flow
        self._before = before
        self._depth = depth
        self.block: int | None = None
        self.calls: list[tuple[int, int | None, Mapping[str, str | None]]] = []
        self.released: list[tuple[int, Value | None]] = []
        self.given_back: set[Value] = set()
        self.stored: list[tuple[int, str | None]] = []
        self.used: set[str] = set()
        self.acquired_by: dict[Value, int] = {}

    def apply(self, instruction: Instruction, state: State) -> None:
        """Change a state as an instruction does that is neither a jump nor a return."""
        if instruction.kind == "call":
            self.call(instruction, state, self.called(instruction, state))
        elif instruction.comparison is not None:
            self._compare(instruction, *instruction.comparison, state)
        elif instruction.tests_lowest_bit is not None and self._flow.inlined is not None and self._flow.inlined.is_bool:
            value = state.values.get(instruction.tests_lowest_bit)
            is_result = value is not None and not value.offset and value.base in state.attempts
            state.flags(compared=value.base if value is not None and is_result else None)
        else:
            assignments = instruction.assignments()
            for assignment in assignments or ():
                self._assign(assignment, instruction, state)
            if assignments is None:
                self._other(instruction, state)

    def note_uses(self, instruction: Instruction, state: State) -> None:
        """Record the arguments that an instruction reads from the registers in which they were passed."""
        if self.block is not None and self._flow.inlined is not None:
            self.used.update(name for name in instruction.read if state.values.get(name) == entry(name))

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
            value = state.fresh(instruction.address, register)
            self._note_load(value, [state.values.get(name) for name in operand.address_registers], state)
            return value
        if at in state.values:
            return state.values[at]
        word = self._flow.slot(at.offset) if at.base == CONSTANT else None
        if word is not None:
            return Value(CONSTANT, word)
        value = state.fresh(instruction.address, register)
        self._note_load(value, [at], state)
        state.values[at] = value
        return value

    def _note_load(self, value: Value, at: Sequence[Value | None], state: State) -> None:
        """Note that an unknown word of the frame may contain the address of a lock, or one in the frame.

        :param at: the address, or the values from which it is computed.
        """
        if self._flow.inlined is not None:
            is_word = len(at) == 1 and at[0] is not None and state.is_stack(at[0])
            lowest = state.lowest(at)
            if lowest is not None:
                state.note_copy(value, state.hidden if is_word else state.in_frame(lowest))

    def _assign(self, made: Assignment, instruction: Instruction, state: State) -> None:
        if made.sets_flags:
            state.flags()
        name = made.target if isinstance(made.target, str) else ""
        value: Value | None
        if made.is_address and isinstance(made.source, MemoryOperand):
            value = self._address(made.source, instruction, state)
            if value is None:
                value = state.fresh(instruction.address, name)
                state.note_copy(value, self._frame_addresses(made.source.address_registers, state))
        else:
            value = self._source(made.source, instruction, state, name)
        if isinstance(made.target, MemoryOperand):
            at = self._address(made.target, instruction, state)
            state.store(at, 8, value)
            if value.base != CONSTANT:
                self._note_store(at, state)
            if self._flow.inlined is not None and (at is None or not state.is_stack(at)):
                state.lose(value)
                state.expose(state.lowest([value]))
        else:
            state.values[name] = value.plus(made.offset)

    def _frame_addresses(self, names: Iterable[object], state: State) -> frozenset[Value]:
        """The addresses in the function's own frame that registers may contain."""
        if self._flow.inlined is None:
            return frozenset()
        values = [state.values.get(name) for name in names if isinstance(name, str)]
        return frozenset(each for value in values for each in state.may_be(value) if state.is_stack(each))

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
            if exchange is not None and self._flow.inlined.may_be(exchange):
                self._exchange(exchange, self._flow.inlined, instruction, state)
                return
            self._lose_used(instruction, state)
        copied = instruction.narrow_copy
        constant = self._constant(copied[0], 4, state) if copied is not None else None
        if copied is not None and constant is not None:
            state.values[copied[1]] = Value(CONSTANT, constant)
            state.dead -= instruction.written
            return
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
                size = _size(instruction, access)
                state.store(at, size, None)
                if size is None or size >= 8:
                    self._note_store(at, state)
        computed_from = self._frame_addresses(instruction.operands, state)
        for name in instruction.written:
            state.values.pop(name, None)
            if computed_from:
                state.made(instruction.address, name, computed_from)
        state.dead -= instruction.written

    # -- locks that atomic instructions acquire -------------------------------------------------------------------

    def _exchange(self, exchange: Exchange, inlined: Inlined, instruction: Instruction, state: State) -> None:
        """Apply an exchange, which may acquire or release a lock."""
        lock = self._address(exchange.operand, instruction, state)
        is_free = self._acquires_free(exchange, inlined, instruction.address, state)
        acquires = is_free or self._acquires_more(exchange, inlined, instruction, state)
        if not (acquires and lock is not None) and self._may_release(exchange, inlined, instruction.address, state):
            self._release_lock(lock, state)
        state.store(lock, exchange.size, None)
        result = state.fresh(instruction.address, exchange.old) if exchange.old is not None else None
        if exchange.old is not None and result is not None:
            state.values[exchange.old] = result
        state.flags()
        if acquires and lock is not None and result is not None:
            # a value that was not zero before says nothing by itself
            base = result.base if is_free else state.fresh(instruction.address, "flags").base
            state.attempts[base] = lock, True
            state.taken[instruction.address, 0] = Taken(lock, True, True)
            if exchange.kind == "compares":
                state.flags(compared=base)

    def _acquires_free(self, exchange: Exchange, inlined: Inlined, address: int, state: State) -> bool:
        """Whether an exchange acquires a lock that is free."""
        if exchange.kind not in ("exchanges", "compares"):
            return False
        stored = self._stored(exchange, address, state)
        return stored in inlined.acquired and (
            exchange.kind == "exchanges" or self._constant(exchange.old, exchange.size, state) == 0)

    def _acquires_more(self, exchange: Exchange, inlined: Inlined, instruction: Instruction, state: State) -> bool:
        """Whether a comparison acquires a lock by a change of the old value."""
        if exchange.kind != "compares" or exchange.old is None or exchange.stored is None or not (
                inlined.added or inlined.bit):
            return False
        ones = {name: state.ones_of(name) for name in state.cpu.GENERAL}
        made = state.cpu.change(self._before(instruction.address), exchange.old, exchange.stored,
                                8 * exchange.size, ones)
        return made is not None and (made.added in inlined.added and not made.ones or any(
            made.ones & bits == bits for bits in inlined.added if bits & bits - 1) or made.ones & inlined.bit != 0)

    def _stored(self, exchange: Exchange, address: int, state: State) -> int | None:
        """The value that an exchange stores, if it is constant."""
        stored = self._constant(exchange.stored, exchange.size, state)
        if stored is None and exchange.part is not None:
            # a move into a part of a register, which leaves the rest of it unknown
            before = self._before(address)
            origin = state.cpu.origin(before, len(before), exchange.part)
            stored = origin.value if origin is not None and origin.kind == "constant" and origin.certain else None
        return stored

    def _may_release(self, exchange: Exchange, inlined: Inlined, address: int, state: State) -> bool:
        if exchange.kind != "adds":
            return exchange.kind in inlined.releases and (
                not inlined.zero_frees or self._stored(exchange, address, state) == 0)
        added = exchange.added if exchange.added is not None else self._constant(exchange.stored, exchange.size, state)
        mask = (1 << 8 * exchange.size) - 1
        return "adds" in inlined.releases and (added is None or -added & mask in inlined.subtracted)

    @staticmethod
    def _constant(register: str | None, size: int, state: State) -> int | None:
        """The lowest bytes of a register, if they are constant."""
        value = state.values.get(register) if register is not None else None
        return value.offset & (1 << 8 * size) - 1 if value is not None and value.base == CONSTANT else None

    def _lose_used(self, instruction: Instruction, state: State) -> None:
        """Lose the locks whose addresses an instruction uses in a way that is not followed."""
        for operand in instruction.operands:
            if isinstance(operand, str):
                state.lose(state.values.get(operand))
        for access in instruction.accesses():
            at = self._address(access.operand, instruction, state) if access.kind == "read" else None
            if at is not None and state.is_stack(at):
                size = _size(instruction, access)
                for place, value in [*state.values.items()]:
                    if (isinstance(place, Value) and state.is_stack(place) and at.offset < place.offset + 8
                            and (size is None or place.offset < at.offset + size)):
                        state.lose(value)
                if size is None or size >= 8:
                    self._lose_all(state.hidden, state)

    @staticmethod
    def _lose_all(locks: Iterable[Value], state: State) -> None:
        for lock in locks:
            state.lose(lock)

    def _pass(self, called: int | None, arguments: Mapping[str, Value], state: State) -> frozenset[Value]:
        """Lose the locks whose addresses a completed call has passed to code that is not known, or has stored.

        :return: the locks and addresses in the frame that its result may be.
        """
        if not state.held:
            # not worth the time to find out what it does with addresses in the frame
            state.expose(state.lowest(arguments.values()))
            return state.followed(arguments.values())
        reach = self._flow.reach(called, self._depth + 1)
        origins = {name: self._origin(value, state) for name, value in arguments.items()}
        places = reach.stores | reach.copies
        is_only_copied = not reach.unknown and not self.stores_of(reach.stores, origins)
        lowest = state.reached(arguments.values(), is_only=reach is self._flow.copying)
        if not is_only_copied or self.stores_of(reach.copies, origins):
            self._lose_passed({name: value for name, value in arguments.items() if name in reach.uses}, state,
                              is_only_copied)
            state.expose(state.lowest(arguments.values()) if not is_only_copied else None)
        used = [value for name, value in arguments.items() if name in reach.uses]
        passed = state.followed(used) | state.in_frame(lowest)
        if reach.unknown or any(origins.get(name) == self._flow.cpu.STACK_POINTER for name in places if name):
            state.hidden |= passed
        else:
            state.hidden |= state.in_frame(lowest)
        return passed

    def stores_of(self, places: frozenset[str | None], origins: Mapping[str, str | None]) -> frozenset[str | None]:
        """The places outside of the frame to which a call stores; see `Reach`.

        :param origins: the register that contains each argument at the function's entry; see `_origin`.
        """
        found = {origins.get(name) if name is not None else None for name in places}
        if _CONSTANT in found:
            found.add(None)
        return frozenset(found - {_CONSTANT, self._flow.cpu.STACK_POINTER})

    def _lose_passed(self, arguments: Mapping[str, Value], state: State, in_memory: bool = False) -> None:
        """Lose the locks whose addresses a call gets, by arguments or by memory that arguments point to.

        :param in_memory: only by memory.
        """
        lowest = state.reached(arguments.values(), is_only=in_memory)
        for place, value in [*state.values.items()]:
            if (place in arguments and not in_memory if isinstance(place, str) else
                    not state.is_stack(place) or lowest is not None and place.offset >= lowest):
                state.lose(value)
        if lowest is not None:
            self._lose_all(state.hidden, state)

    def is_passed(self, lock: Value, state: State) -> bool:
        """Whether the call at a place gets the address of a lock that is held there."""
        state = state.copy()
        self._lose_passed({name: state.values[name] for name in state.cpu.ARGUMENTS if name in state.values}, state)
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
        passed: frozenset[Value] = frozenset()
        is_primitive = any(effect is known for known in self._flow.primitive_effects)
        if not is_primitive and self._flow.inlined is not None:
            state.called |= {called}
            passed = self._pass(called, arguments, state)
        if not is_primitive or effect.suspends:
            self._call_writes(arguments.values(), state)
        self._release(effect, arguments, state)
        self._acquire(effect, arguments, state, instruction.address, called)
        for name in state.cpu.CALLER_SAVED:
            state.values.pop(name, None)
        state.dead = state.cpu.CALLER_SAVED - {*state.cpu.RESULTS}
        for name in state.cpu.RESULTS:
            # a register of an argument that the call does not change may be one of a result too
            copy_of = passed | state.followed([arguments.get(name)]) if self._flow.inlined is not None else passed
            if copy_of:
                state.made(instruction.address, name, copy_of)
        state.flags()
        result = _translate(effect.result, arguments) if effect.result is not None else None
        if result is not None:
            state.values[state.cpu.RESULT] = result
        lock = _translate(effect.attempt[0], arguments) if effect.attempt is not None else None
        if effect.attempt is not None and lock is not None and called is not None:
            self.acquired_by[lock] = called
            flag = arguments.get(effect.wait_flag) if effect.wait_flag is not None else None
            if flag is not None and flag.base == CONSTANT and flag.offset:
                state.held[lock] = frozenset()
                return
            made = state.values[state.cpu.RESULT] = state.fresh(instruction.address, state.cpu.RESULT)
            state.attempts[made.base] = lock, effect.attempt[1]

    def _call_writes(self, arguments: Iterable[Value], state: State) -> None:
        """Forget the memory that a call may change: all but the own frame below the lowest pointer argument."""
        lowest = state.lowest(arguments)
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
        elif lock is not None:
            self.given_back.add(lock)
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


def _size(instruction: Instruction, access: Access) -> int | None:
    """The bytes that all repetitions of an instruction access; None if unknown."""
    return None if any(prefix.startswith("rep") for prefix in instruction.prefixes) else access.size


def _translate(value: Value, arguments: Mapping[str, Value]) -> Value | None:
    """A value of a callee in terms of its caller; None if it depends on more than the arguments."""
    if value.base == CONSTANT or value.base[0] == ONLY:
        return value
    name = value.base[1]
    return arguments[name].plus(value.offset) if isinstance(name, str) and name in arguments else None
