"""What a call does to a state: the summary of the function that it calls, and the addresses that the function gets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gdbext.arch.protocol import Instruction
from gdbext.proofs.flow.escape import (
    escape_by_call,
    escape_frame,
    in_frame,
    lowest_pointer,
    note_alias,
    reached,
    tracked,
)
from gdbext.proofs.flow.facts import Facts, origin_of, stores_of
from gdbext.proofs.flow.state import CONSTANT, ONLY, State, Taken, Value
from gdbext.proofs.flow.summaries import NO_EFFECT, Callees, Summary

#: Most locks that one call may acquire.
_MAX_TAKEN = 8


class CallTransfer:
    """Applies the calls of one function.

    :param follows_addresses: whether the addresses of locks are followed, which escape from the function.
    """

    def __init__(self, callees: Callees, facts: Facts, depth: int, follows_addresses: bool) -> None:
        self._callees = callees
        self._facts = facts
        self._depth = depth
        self._follows_addresses = follows_addresses

    def apply(self, call: Instruction, state: State, called: int | None) -> None:
        """Change a state as a call does, or a jump in place of one.

        :param called: the function that it calls; None if it is not known.
        """
        summary = self._callees.summary(called, self._depth + 1) if called is not None else NO_EFFECT
        self._facts.note_call(called, state)
        arguments = {name: state.values[name] for name in state.cpu.ARGUMENTS if name in state.values}
        passed: frozenset[Value] = frozenset()
        is_primitive = self._callees.is_primitive(summary)
        if not is_primitive and self._follows_addresses:
            state.called |= {called}
            passed = self._pass(called, arguments, state)
        if not is_primitive or summary.suspends:
            _write(arguments.values(), state)
        self._release(summary, arguments, state)
        self._acquire(summary, arguments, state, call.address, called)
        for name in state.cpu.CALLER_SAVED:
            state.values.pop(name, None)
        state.dead = state.cpu.CALLER_SAVED - {*state.cpu.RESULTS}
        for name in state.cpu.RESULTS:
            # a register of an argument that the call does not change may be one of a result too
            alias_of = passed | tracked(state, [arguments.get(name)]) if self._follows_addresses else passed
            if alias_of:
                value = state.values[name] = state.fresh(call.address, name)
                note_alias(state, value, alias_of)
        state.flags()
        result = _of_caller(summary.result, arguments) if summary.result is not None else None
        if result is not None:
            state.values[state.cpu.RESULT] = result
        self._attempt(summary, arguments, state, call.address, called)

    def _attempt(self, summary: Summary, arguments: Mapping[str, Value], state: State, address: int,
                 called: int | None) -> None:
        lock = _of_caller(summary.attempt[0], arguments) if summary.attempt is not None else None
        if summary.attempt is None or lock is None or called is None:
            return
        self._facts.acquired_by[lock] = called
        flag = arguments.get(summary.wait_flag) if summary.wait_flag is not None else None
        if flag is not None and flag.base == CONSTANT and flag.offset:
            state.held[lock] = frozenset()
            return
        made = state.values[state.cpu.RESULT] = state.fresh(address, state.cpu.RESULT)
        state.attempts[made.base] = lock, summary.attempt[1]

    def _release(self, summary: Summary, arguments: Mapping[str, Value], state: State) -> None:
        released: list[Value | None] = [_of_caller(value, arguments) for value in summary.releases]
        if summary.releases_unknown:
            released.append(None)
        for lock in released:
            self._facts.release(lock, state)

    def _acquire(self, summary: Summary, arguments: Mapping[str, Value], state: State, address: int,
                 called: int | None) -> None:
        for lock, released in summary.acquires.items():
            known = _of_caller(lock, arguments)
            if known is not None:
                state.held[known] = released
                if called is not None:
                    self._facts.acquired_by[known] = called
        if self._callees.notes_taken:
            self._take(summary, arguments, state, address)
        for word, released in summary.guards.items():
            at = _of_caller(word, arguments)
            if at is not None:
                state.values[at] = state.fresh(address, at)
                state.held[state.values[at]] = released

    def _take(self, summary: Summary, arguments: Mapping[str, Value], state: State, address: int) -> None:
        taken = summary.taken or tuple(Taken(lock, True, True) for lock in summary.acquires)
        if summary.attempt is not None and not summary.taken:
            taken += Taken(summary.attempt[0], True, True),  # dropped where it has failed
        for number, each in enumerate(taken[:_MAX_TAKEN]):
            state.taken[address, number] = each._replace(
                lock=_of_caller(each.lock, arguments) if each.lock is not None else None)

    def _pass(self, called: int | None, arguments: Mapping[str, Value], state: State) -> frozenset[Value]:
        """Have the locks escape whose addresses a completed call has passed to unknown code, or has stored.

        :return: the locks and addresses in the frame that its result may be.
        """
        if not state.held:
            # not worth the time to find out what it does with addresses in the frame
            escape_frame(state, lowest_pointer(state, arguments.values()))
            return tracked(state, arguments.values())
        escapes = self._callees.escapes(called, self._depth + 1)
        stack_pointer = state.cpu.STACK_POINTER
        origins = {name: origin_of(value) for name, value in arguments.items()}
        places = escapes.stores | escapes.copies
        is_only_copied = not escapes.unknown and not stores_of(escapes.stores, origins, stack_pointer)
        lowest = reached(state, arguments.values(), is_only=escapes is self._callees.copying)
        if not is_only_copied or stores_of(escapes.copies, origins, stack_pointer):
            escape_by_call(state, {name: value for name, value in arguments.items() if name in escapes.uses},
                           is_only_copied)
            escape_frame(state, lowest_pointer(state, arguments.values()) if not is_only_copied else None)
        used = [value for name, value in arguments.items() if name in escapes.uses]
        passed = tracked(state, used) | in_frame(state, lowest)
        if escapes.unknown or any(origins.get(name) == stack_pointer for name in places if name):
            state.spilled |= passed
        else:
            state.spilled |= in_frame(state, lowest)
        return passed


def _write(arguments: Iterable[Value], state: State) -> None:
    """Forget the memory that a call may change: all but the own frame below the lowest pointer argument."""
    lowest = lowest_pointer(state, arguments)
    for place in [place for place in state.values if isinstance(place, Value)]:
        if not state.is_stack(place) or lowest is not None and place.offset >= lowest:
            del state.values[place]


def _of_caller(value: Value, arguments: Mapping[str, Value]) -> Value | None:
    """A value of a callee in terms of its caller; None if it depends on more than the arguments."""
    if value.base == CONSTANT or value.base[0] == ONLY:
        return value
    name = value.base[1]
    return arguments[name].plus(value.offset) if isinstance(name, str) and name in arguments else None


def passes(lock: Value, state: State) -> bool:
    """Whether the call at a place gets the address of a lock that is held there."""
    state = state.copy()
    escape_by_call(state, {name: state.values[name] for name in state.cpu.ARGUMENTS if name in state.values})
    return lock not in state.held
