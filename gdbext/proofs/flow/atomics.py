"""The transfer of atomic instructions, which acquire and release some kinds of locks in place of calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gdbext.arch.protocol import Exchange, ExchangeKind, Instruction
from gdbext.proofs.flow.facts import Facts
from gdbext.proofs.flow.state import State, Taken
from gdbext.record import record


@record
class Inlined:
    """Atomic instructions by which compiled code acquires and releases a lock, in place of a call.

    The lock's word has `size` bytes and is 0 while the lock is free. An exchange of 0 for one of `acquired` acquires
    it, and so does a comparison that succeeds and stores the compared value plus one of `added`, or with all bits of
    one of them set. Any other exchange of one of the kinds in `releases` may release it, but an addition of a constant
    only if that is one of `subtracted`. A word that `is_bool` is 0 or 1. With `zero_frees`, an exchange or a comparison
    releases it only if it stores the constant 0. If a comparison stores the compared value with `bit` set, it acquires.
    """

    size: int
    acquired: frozenset[int]
    releases: frozenset[ExchangeKind]
    added: frozenset[int] = frozenset()
    subtracted: frozenset[int] = frozenset()
    is_bool: bool = False
    zero_frees: bool = False
    bit: int = 0

    @property
    def may_acquire(self) -> bool:
        """Whether any of the instructions acquires a lock, not only calls of functions."""
        return bool(self.acquired or self.added or self.bit)

    def may_be(self, exchange: Exchange) -> bool:
        """Whether an instruction may acquire or release a lock."""
        return exchange.size == self.size and (exchange.kind in ("exchanges", "compares")
                                               or exchange.kind in self.releases)


class AtomicTransfer:
    """Applies atomic instructions to a state.

    :param before: the instructions that always run directly before that at an address.
    """

    def __init__(self, inlined: Inlined, facts: Facts, before: Callable[[int], Sequence[Instruction]],
                 notes_taken: bool) -> None:
        self._inlined = inlined
        self._facts = facts
        self._before = before
        self._notes_taken = notes_taken

    def apply(self, exchange: Exchange, instruction: Instruction, state: State) -> None:
        """Apply an exchange, which may acquire or release a lock."""
        lock = state.address_of(exchange.operand, instruction)
        is_free = self._acquires_free(exchange, instruction.address, state)
        acquires = is_free or self._acquires_more(exchange, instruction, state)
        if not (acquires and lock is not None) and self._may_release(exchange, instruction.address, state):
            self._facts.release(lock, state)
        state.store(lock, exchange.size, None)
        result = state.fresh(instruction.address, exchange.old) if exchange.old is not None else None
        if exchange.old is not None and result is not None:
            state.values[exchange.old] = result
        state.flags()
        if acquires and lock is not None and result is not None:
            # a value that was not zero before says nothing by itself
            base = result.base if is_free else state.fresh(instruction.address, "flags").base
            state.attempts[base] = lock, True
            if self._notes_taken:
                state.taken[instruction.address, 0] = Taken(lock, True, True)
            if exchange.kind == "compares":
                state.flags(compared=base)

    def _acquires_free(self, exchange: Exchange, address: int, state: State) -> bool:
        """Whether an exchange acquires a lock that is free."""
        if exchange.kind not in ("exchanges", "compares"):
            return False
        stored = self._stored(exchange, address, state)
        return stored in self._inlined.acquired and (
            exchange.kind == "exchanges" or state.constant(exchange.old, exchange.size) == 0)

    def _acquires_more(self, exchange: Exchange, instruction: Instruction, state: State) -> bool:
        """Whether a comparison acquires a lock by a change of the old value."""
        added, bit = self._inlined.added, self._inlined.bit
        if exchange.kind != "compares" or exchange.old is None or exchange.stored is None or not (added or bit):
            return False
        ones = {name: state.ones_of(name) for name in state.cpu.GENERAL}
        made = state.cpu.change(self._before(instruction.address), exchange.old, exchange.stored,
                                8 * exchange.size, ones)
        return made is not None and (made.added in added and not made.ones or any(
            made.ones & bits == bits for bits in added if bits & bits - 1) or made.ones & bit != 0)

    def _stored(self, exchange: Exchange, address: int, state: State) -> int | None:
        """The value that an exchange stores, if it is constant."""
        stored = state.constant(exchange.stored, exchange.size)
        if stored is None and exchange.part is not None:
            # a move into a part of a register, which leaves the rest of it unknown
            before = self._before(address)
            origin = state.cpu.origin(before, len(before), exchange.part)
            stored = origin.value if origin is not None and origin.kind == "constant" and origin.certain else None
        return stored

    def _may_release(self, exchange: Exchange, address: int, state: State) -> bool:
        inlined = self._inlined
        if exchange.kind != "adds":
            return exchange.kind in inlined.releases and (
                not inlined.zero_frees or self._stored(exchange, address, state) == 0)
        added = exchange.added if exchange.added is not None else state.constant(exchange.stored, exchange.size)
        mask = (1 << 8 * exchange.size) - 1
        return "adds" in inlined.releases and (added is None or -added & mask in inlined.subtracted)
