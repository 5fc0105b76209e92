"""One function that is analysed: the locks at each place in it, and the summary that its callers use."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from gdbext.arch.protocol import Architecture
from gdbext.errors import if_unreadable
from gdbext.proofs.flow.atomics import Inlined
from gdbext.proofs.flow.calls import passes
from gdbext.proofs.flow.facts import stores_of
from gdbext.proofs.flow.locks import in_both
from gdbext.proofs.flow.paths import Paths
from gdbext.proofs.flow.state import CONSTANT, ONLY, Attempt, Held, State, Taken, TakenAt, Value
from gdbext.proofs.flow.summaries import NO_EFFECT, Callees, Escapes, Summary
from gdbext.proofs.machine_code import MachineCode


@if_unreadable(None)
def analyse(code: MachineCode, callees: Callees, inlined: Inlined | None, found: tuple[int, int],
            depth: int) -> Function | None:
    """Analyse a function; None if its code cannot be read, or exceeds the bounds.

    :param found: the start and end of the function.
    :param depth: the number of calls from the function that is asked about.
    """
    paths = Paths(code, callees, inlined, found, depth)
    paths.settle()
    return Function(code.cpu, callees, paths)


class Function:
    """What is known of one function."""

    def __init__(self, cpu: Architecture, callees: Callees, paths: Paths) -> None:
        self._cpu = cpu
        self._callees = callees
        self._paths = paths

    # -- at a place in it ------------------------------------------------------------------------------------------

    def contains(self, pc: int) -> bool:
        """Whether a program counter is in one of the function's parts."""
        return self._paths.flow.contains(pc)

    def before(self, pc: int) -> State | None:
        """The state before the instruction that covers a program counter; None if there is no such instruction."""
        return self._paths.before(pc)

    def called_at(self, pc: int) -> int | None:
        """The function that the call at a program counter calls."""
        return self._paths.called_at(pc)

    def passes(self, pc: int, lock: Value) -> bool:
        """Whether the call at a program counter gets the address of a lock that is held there."""
        state = self.before(pc)
        return state is None or passes(lock, state)

    @property
    def acquired_by(self) -> Mapping[Value, int]:
        """The function that has acquired each lock, for messages."""
        return self._paths.facts.acquired_by

    @property
    def given_back(self) -> Collection[Value]:
        """The locks that the function has acquired on every path to a release of them."""
        return self._paths.facts.given_back

    # -- where it returns ------------------------------------------------------------------------------------------

    def summary(self) -> Summary:
        """The effect of a call of the function when it has returned."""
        exits = self._paths.exits
        if not exits:
            return NO_EFFECT
        attempts = {self._attempt(state) for state in exits}
        results = {state.values.get(state.cpu.RESULT) for state in exits}
        result = results.pop() if len(results) == 1 else None
        acquires: Held | None = None
        guards: Held | None = None
        for state in exits:
            locks = {lock: released for lock, released in state.held.items() if self._is_of_call(lock)}
            words = {place: state.held[value] for place, value in state.values.items()
                     if isinstance(place, Value) and value in state.held and self._is_of_call(place)}
            acquires = in_both(acquires, locks)
            guards = in_both(guards, words)
        released = dict.fromkeys(lock for at, lock in self._paths.facts.released if at in self._paths.returning)
        releases = tuple(value for value in released if value is not None and self._is_of_call(value))
        unknown = any(value is None or not self._is_of_call(value) for value in released)
        return Summary(acquires or {}, guards or {}, releases, unknown,
                       attempts.pop() if len(attempts) == 1 else None,
                       result if result is not None and self._is_of_call(result) else None, self._taken())

    def _attempt(self, state: State) -> Attempt | None:
        """The attempt whose result a function returns."""
        result = state.values.get(state.cpu.RESULT)
        attempt = state.attempts.get(result.base) if result is not None and not result.offset else None
        return attempt if attempt is not None and self._is_of_call(attempt[0]) else None

    def _is_of_call(self, value: Value) -> bool:
        """Whether a value is a constant, or computed from an argument of the function: a caller can compute it too."""
        return (value.base[0] == ONLY or value.base == CONSTANT
                or value.base[0] == "entry" and value.base[1] in self._cpu.ARGUMENTS)

    def escapes(self, depth: int) -> Escapes:
        """What may happen to addresses that the function gets, on paths that return.

        :param depth: of the function's call.
        """
        facts, returning, stack_pointer = self._paths.facts, self._paths.returning, self._cpu.STACK_POINTER
        unknown, uses = False, set(facts.used)
        stores = {to for at, to in facts.stored if at in returning}
        copies: set[str | None] = set()
        for at, called, arguments in facts.calls:
            found = self._callees.escapes(called, depth + 1)
            uses.update(origin for name, origin in arguments.items() if origin is not None and name in found.uses)
            if at in returning:
                unknown = unknown or found.unknown
                stores |= stores_of(found.stores, arguments, stack_pointer)
                copied = stores_of(found.copies, arguments, stack_pointer)
                # memory of this function's own frame may contain what it got in registers
                if stack_pointer in arguments.values():
                    stores |= copied
                else:
                    copies |= copied
        return Escapes(unknown, frozenset(stores), frozenset(copies), frozenset(uses & {*self._cpu.ARGUMENTS}))

    # -- locks that some path may have acquired --------------------------------------------------------------------

    def _taken(self) -> tuple[Taken, ...]:
        """The locks that the function may hold when it returns, in terms of its arguments."""
        found: dict[TakenAt, Taken] = {}
        for i, state in enumerate(self._paths.exits):
            for at, taken in state.taken.items():
                if taken.kept:
                    lock = taken.lock if taken.lock is not None and self._is_of_call(taken.lock) else None
                    known = found.get(at)
                    found[at] = Taken(lock if known is None or known.lock == lock else None,
                                      taken.always and (known is not None and known.always or not i), True)
            for at in found.keys() - {at for at, taken in state.taken.items() if taken.kept}:
                found[at] = found[at]._replace(always=False)
        return tuple(dict.fromkeys(found.values()))

    def acquires_by_instruction(self, lock: Value) -> bool:
        """Whether an instruction of the function itself has acquired a lock that it returns with."""
        code = self._paths.flow.instructions
        return any(taken.lock == lock and taken.kept and code[at].exchange is not None
                   for state in self._paths.exits for (at, _), taken in state.taken.items())

    def keeps(self, pc: int, lock: Value) -> bool:
        """Whether the call at a program counter acquires a lock, and every path from there to an end keeps it."""
        call = self._paths.flow.at(pc)
        found = [taken for state in self._paths.exits for (at, _), taken in state.taken.items()
                 if call is not None and at == call.address]
        return bool(found) and all(taken.lock == lock and taken.kept for taken in found)
