"""The transfer of one instruction: what it does to the known values of registers and memory, and to the locks.

Jumps and returns are not here, but in `paths.py`, which follows them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from gdbext.arch.protocol import Access, Assignment, Instruction, MemoryOperand
from gdbext.proofs.flow.atomics import AtomicTransfer, Inlined
from gdbext.proofs.flow.calls import CallTransfer
from gdbext.proofs.flow.escape import (
    escape,
    escape_all,
    escape_frame,
    in_frame,
    lowest_pointer,
    may_be,
    note_alias,
)
from gdbext.proofs.flow.facts import Facts
from gdbext.proofs.flow.state import CONSTANT, State, Value
from gdbext.proofs.flow.summaries import Callees


class Transfer:
    """Applies the instructions of one function, and records what its summary needs.

    :param slot: the word at an address, if it cannot have changed.
    :param inlined: the instructions that acquire and release locks; with them, the addresses of locks are followed.
    :param before: the instructions that always run directly before that at an address.
    """

    def __init__(self, callees: Callees, slot: Callable[[int], int | None], inlined: Inlined | None, depth: int,
                 before: Callable[[int], Sequence[Instruction]]) -> None:
        self.facts = Facts()
        self._slot = slot
        self._inlined = inlined
        self._atomics = (AtomicTransfer(inlined, self.facts, before, callees.notes_taken)
                         if inlined is not None else None)
        self._calls = CallTransfer(callees, self.facts, depth, inlined is not None)

    def apply(self, instruction: Instruction, state: State) -> None:
        """Change a state as an instruction does that is neither a jump nor a return."""
        if instruction.kind == "call":
            self._calls.apply(instruction, state, self.called(instruction, state))
        elif instruction.comparison is not None:
            self._compare(instruction, *instruction.comparison, state)
        elif instruction.tests_lowest_bit is not None and self._inlined is not None and self._inlined.is_bool:
            value = state.values.get(instruction.tests_lowest_bit)
            is_result = value is not None and not value.offset and value.base in state.attempts
            state.flags(compared=value.base if value is not None and is_result else None)
        else:
            assignments = instruction.assignments()
            for assignment in assignments or ():
                self._assign(assignment, instruction, state)
            if assignments is None:
                self._other(instruction, state)

    def call(self, instruction: Instruction, state: State, called: int | None) -> None:
        """Change a state as a jump does to a function that returns to the caller.

        :param called: the function; None if it is not known.
        """
        self._calls.apply(instruction, state, called)

    def called(self, instruction: Instruction, state: State) -> int | None:
        """The function that a call or jump goes to; None if it is not known."""
        operand = instruction.operands[0] if instruction.operands else None
        if isinstance(operand, int):
            return operand
        if isinstance(operand, str):  # loaded once for several calls
            value = state.values.get(operand)
            return value.offset if value is not None and value.base == CONSTANT else None
        place = operand.simple(instruction.next_address) if isinstance(operand, MemoryOperand) else None
        return self._slot(place[1]) if place is not None and place[0] is None else None

    def note_uses(self, instruction: Instruction, state: State) -> None:
        """Record the arguments that an instruction reads."""
        if self._inlined is not None:
            self.facts.note_uses(instruction, state)

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

    # -- moves -----------------------------------------------------------------------------------------------------

    def _assign(self, made: Assignment, instruction: Instruction, state: State) -> None:
        if made.sets_flags:
            state.flags()
        name = made.target if isinstance(made.target, str) else ""
        value: Value | None
        if made.is_address and isinstance(made.source, MemoryOperand):
            value = state.address_of(made.source, instruction)
            if value is None:
                value = state.fresh(instruction.address, name)
                note_alias(state, value, self._frame_addresses(made.source.address_registers, state))
        else:
            value = self._source(made.source, instruction, state, name)
        if isinstance(made.target, MemoryOperand):
            at = state.address_of(made.target, instruction)
            state.store(at, 8, value)
            if value.base != CONSTANT:
                self.facts.note_store(at, state)
            if self._inlined is not None and (at is None or not state.is_stack(at)):
                escape(state, value)
                escape_frame(state, lowest_pointer(state, [value]))
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

    def _load(self, operand: MemoryOperand, instruction: Instruction, state: State, register: str) -> Value:
        at = state.address_of(operand, instruction)
        if at is None:
            value = state.fresh(instruction.address, register)
            self._note_load(value, [state.values.get(name) for name in operand.address_registers], state)
            return value
        if at in state.values:
            return state.values[at]
        word = self._slot(at.offset) if at.base == CONSTANT else None
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
        if self._inlined is not None:
            is_word = len(at) == 1 and at[0] is not None and state.is_stack(at[0])
            lowest = lowest_pointer(state, at)
            if lowest is not None:
                note_alias(state, value, state.spilled if is_word else in_frame(state, lowest))

    def _frame_addresses(self, names: Iterable[object], state: State) -> frozenset[Value]:
        """The addresses in the function's own frame that registers may contain."""
        if self._inlined is None:
            return frozenset()
        values = [state.values.get(name) for name in names if isinstance(name, str)]
        return frozenset(each for value in values for each in may_be(state, value) if state.is_stack(each))

    # -- instructions without a rule of their own ------------------------------------------------------------------

    def _other(self, instruction: Instruction, state: State) -> None:
        """Apply any other instruction, after which all that it writes is unknown."""
        if self._atomics is not None and self._inlined is not None:
            exchange = instruction.exchange
            if exchange is not None and self._inlined.may_be(exchange):
                self._atomics.apply(exchange, instruction, state)
                return
            _escape_used(instruction, state)
        copied = instruction.narrow_copy
        constant = state.constant(copied[0], 4) if copied is not None else None
        if copied is not None and constant is not None:
            state.values[copied[1]] = Value(CONSTANT, constant)
            state.dead -= instruction.written
            return
        if _store_condition(instruction, state):
            return
        state.flags()
        if not instruction.operands and len(instruction.text.split()) > len(instruction.prefixes) + 1:
            state.values = {}  # operands that are not parsed
            return
        for access in instruction.accesses():
            if access.kind == "write":
                at = state.address_of(access.operand, instruction)
                size = _size(instruction, access)
                state.store(at, size, None)
                if size is None or size >= 8:
                    self.facts.note_store(at, state)
        computed_from = self._frame_addresses(instruction.operands, state)
        for name in instruction.written:
            state.values.pop(name, None)
            if computed_from:
                value = state.values[name] = state.fresh(instruction.address, name)
                note_alias(state, value, computed_from)
        state.dead -= instruction.written


def _store_condition(instruction: Instruction, state: State) -> bool:
    """Apply an instruction that stores whether the last comparison found zero; False for others, or if unknown."""
    wanted = instruction.stored_condition
    if wanted is None:
        return False
    if state.is_zero is not None:
        # the upper part of the register means nothing
        state.values[wanted[0]] = Value(CONSTANT, int(state.is_zero == (wanted[1] == "equal")))
        return True
    attempt = state.attempts.get(state.compared) if state.compared is not None else None
    if attempt is None:
        return False
    made = state.fresh(instruction.address, wanted[0])
    state.values[wanted[0]] = made
    state.attempts[made.base] = attempt[0], attempt[1] != (wanted[1] == "equal")
    return True


def _escape_used(instruction: Instruction, state: State) -> None:
    """Have the addresses escape that an instruction uses in a way that is not followed."""
    for operand in instruction.operands:
        if isinstance(operand, str):
            escape(state, state.values.get(operand))
    for access in instruction.accesses():
        at = state.address_of(access.operand, instruction) if access.kind == "read" else None
        if at is not None and state.is_stack(at):
            size = _size(instruction, access)
            for place, value in [*state.values.items()]:
                if (isinstance(place, Value) and state.is_stack(place) and at.offset < place.offset + 8
                        and (size is None or place.offset < at.offset + size)):
                    escape(state, value)
            if size is None or size >= 8:
                escape_all(state, state.spilled)


def _size(instruction: Instruction, access: Access) -> int | None:
    """The bytes that all repetitions of an instruction access; None if unknown."""
    return None if any(prefix.startswith("rep") for prefix in instruction.prefixes) else access.size
