"""Which locks the bytecode of a function has acquired by calls of ``acquire`` where the function is now.

Two analyses of the ways through one function. Forward: what is acquired on every way to an instruction, and not
released since. Backward: whether every way from there out of the function releases it.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping
from functools import cached_property
from typing import Literal, NamedTuple, Optional

from gdbext.cpython.code.bytecode import Bytecode
from gdbext.cpython.code.functions import Functions
from gdbext.cpython.code.lock_calls import LOCK_NAMES, LockCall, LockCalls, Place, find_lock_calls
from gdbext.cpython.frames import FrameReader
from gdbext.errors import GdbextError
from gdbext.remembered import remembered
from gdbext.worklist import Fixpoint, walk

#: How a function goes on to release what it has acquired: on each way, with and without an exception; on each way
#: without an exception; or not on each way.
Ways = Literal["all", "normal", "none"]


#: Instructions near the start of a handler of `except` or `with`; not of `finally`.
_CATCHING = frozenset(("WITH_EXCEPT_START", "WITH_CLEANUP_START", "CHECK_EXC_MATCH", "JUMP_IF_NOT_EXC_MATCH",
                       "COMPARE_OP", "CHECK_EG_MATCH"))
_START_OF_HANDLER = 5


class Acquired(NamedTuple):
    """An expression whose ``acquire`` a function has called on every way to the current instruction.

    `at` is the offset of a call in bytes. `others` are the expressions whose ``release`` it may have called since,
    None for one that is not known: if one of them is the same object, nothing is acquired.
    """

    place: Place
    at: int
    others: Collection[Place | None]
    ways: Ways


#: What is acquired: the index of the call, and the expressions released since.
_State = Mapping[Place, tuple[int, frozenset[Optional[Place]]]]


class LockFlow:
    """The analysis of one function."""

    def __init__(self, code: Bytecode, calls: LockCalls) -> None:
        self._code = code
        self._calls = calls
        self._escapes = frozenset(calls.escapes)
        self._acquires: dict[int, LockCall] = {}
        self._releases: dict[int, LockCall] = {}
        self._tests: dict[int, LockCall] = {}
        for call in calls.calls:
            if not call.acquires:
                self._releases[call.call] = call
            elif call.place is not None:
                if call.is_sure:
                    self._acquires[call.call] = call
                elif call.tested is not None:
                    self._tests[call.tested] = call

    def acquired(self, offset: int) -> list[Acquired]:
        """What the function has acquired before the instruction at an offset in bytes."""
        here = self._code.index(offset)
        if here is None or here not in self._states:
            return []
        return [Acquired(place, self._code.instructions[at].start, others | self._escapes, self._ways(here, place))
                for place, (at, others) in self._states[here].items()]

    def has_released(self, offset: int) -> bool:
        """Whether the function may have released any lock before it came to the instruction at an offset."""
        if self._escapes:
            return True
        here = self._code.index(offset)
        return here is None or any(here == call or here in self._after(call) for call in self._releases)

    def releases_ahead(self, offset: int) -> Iterator[Place | None]:
        """The expressions that the function may release after the instruction at an offset without acquiring them.

        The call that the instruction is does not count as a failure to acquire.
        """
        yield from self._escapes
        here = self._code.index(offset)
        for place in {call.place for call in self._releases.values()}:
            if here is None or self._reaches_release(here, place):
                yield place

    def is_reassigned(self, place: Place) -> bool:
        """Whether the function assigns the variable of an expression or an attribute of a name in it."""
        names = {place.variable, *place.attributes}
        return any(not names.isdisjoint(assigned) for assigned in self._calls.stores.values())

    def _takes(self, i: int, following: int, place: Place) -> bool:
        """Whether the way from an instruction to a following one takes the lock, because of the result of a test."""
        test = self._tests.get(i)
        if test is None or test.place != place or len(self._code.successors[i]) != 2:
            return False  # also a jump to the next instruction, which shows nothing
        return (following != i + 1) == test.jumps_if_true

    # -- forward ---------------------------------------------------------------------------------------------

    @cached_property
    def _states(self) -> Mapping[int, _State]:
        """What is acquired before each instruction that can be reached."""
        paths: Fixpoint[int, _State] = Fixpoint(self._next, _meet)

        def follow(i: int) -> None:
            state = paths.states[i]
            after = self._effect(i, state)
            test = self._tests.get(i)
            for following in self._code.successors[i]:
                takes = test is not None and test.place is not None and self._takes(i, following, test.place)
                paths.arrive(following, self._with(after, test) if takes and test is not None else after)
            handler = self._code.handlers[i]
            if handler is not None:
                paths.arrive(handler, _both(state, after))

        paths.arrive(0, {})
        paths.settle(follow)
        return paths.states

    def _next(self, i: int) -> tuple[int, ...]:
        """The instructions that may run next after an instruction, also after an exception."""
        handler = self._code.handlers[i]
        return (*self._code.successors[i], *(() if handler is None else (handler,)))

    def _effect(self, i: int, state: _State) -> _State:
        if i in self._acquires:
            return self._with(state, self._acquires[i])
        if i in self._releases:
            released = self._releases[i].place
            return {place: (at, others | {released}) for place, (at, others) in state.items() if place != released}
        assigned = self._calls.stores.get(i)
        if assigned:
            return {place: found for place, found in state.items()
                    if not {place.variable, *place.attributes} & {*assigned}}
        return state

    @staticmethod
    def _with(state: _State, call: LockCall) -> _State:
        assert call.place is not None
        return {**state, call.place: (call.call, frozenset())}

    @remembered
    def _after(self, start: int) -> set[int]:
        """The instructions that may run after an instruction, also after an exception."""
        return set(walk(self._next(start), self._next))

    # -- backward --------------------------------------------------------------------------------------------

    def _ways(self, here: int, place: Place) -> Ways:
        current = self._acquires.get(here)
        if current is not None and current.place == place:
            return "none"  # the thread waits for a lock that it has acquired itself
        if self._is_signal(place) or self._may_fail_to_release(place):
            return "none"
        if not self._all_release(self._code.successors[here], place):
            return "none"
        handler = self._code.handlers[here]
        return "all" if handler is not None and self._all_release((handler,), place) else "normal"

    @remembered
    def _may_fail_to_release(self, place: Place) -> bool:
        """Whether the function expects that ``release`` may fail, because another thread has released the lock.

        Then a `with` block such as that of ``contextlib.suppress``, or an `except`, is around a ``release`` and not
        around an ``acquire``.
        """
        around = {self._code.handlers[call.call] for call in self._calls.calls if call.acquires and call.place == place}
        handlers = {self._code.handlers[call.call] for call in self._releases.values() if call.place == place} - around
        for handler in handlers - {None}:
            assert handler is not None
            names = [each.name for each in self._code.instructions[handler:handler + _START_OF_HANDLER]]
            first = list(itertools.takewhile("RERAISE".__ne__, names))
            # a bare `except:` drops the exception
            if not _CATCHING.isdisjoint(first) or "POP_TOP" in first[:2]:
                return True
        return False

    def _all_release(self, start: tuple[int, ...], place: Place) -> bool:
        """Whether every way, if nothing more raises, releases an expression before it ends, and at least one ends."""
        releases = {call.first for call in self._releases.values() if call.place == place}
        acquires = {call.first for call in self._calls.calls if call.acquires and call.place == place}
        names = {place.variable, *place.attributes}

        def following(i: int) -> tuple[int, ...]:
            return () if i in releases else self._next(i) if self._code.may_raise(i) else self._code.successors[i]

        released = False
        for i in walk(start, following):
            if i in releases:
                released = True
            elif (i in acquires or not names.isdisjoint(self._calls.stores.get(i, ())) or not following(i)
                  or self._code.may_raise(i) and self._code.handlers[i] is None):
                return False
        return released

    @remembered
    def _is_signal(self, place: Place) -> bool:
        """Whether the function may acquire an expression again without a release in between: others release it."""
        releases = {call.call for call in self._releases.values() if call.place == place}
        acquires = {call.call for call in self._calls.calls if call.acquires and call.place == place}
        start = [following for i, call in self._acquires.items() if call.place == place
                 for following in self._code.successors[i]]
        start += [following for i, call in self._tests.items() for following in self._code.successors[i]
                  if self._takes(i, following, place)]
        return any(i in acquires for i in walk(start, lambda i: () if i in releases else self._code.successors[i]))

    def _reaches_release(self, here: int, place: Place | None) -> bool:
        releases = {call.call for call in self._releases.values() if call.place == place}
        acquires = {call.call for call in self._calls.calls if call.acquires and call.is_sure and call.place == place}

        def following(i: int) -> tuple[int, ...]:
            if place is None:
                return self._next(i)
            handler = self._code.handlers[i]
            return () if i in acquires else (*[each for each in self._code.successors[i]
                                               if not self._takes(i, each, place)],
                                             *(() if handler is None else (handler,)))

        return any(i in releases for i in walk((here,), following))


def _meet(_at: int, known: _State | None, arriving: _State) -> _State:
    """What is acquired at an instruction on all ways to it."""
    met = arriving if known is None else _both(known, arriving)
    return known if known is not None and met == known else met


def _both(one: _State, other: _State) -> _State:
    """What is acquired on two ways."""
    return {place: (min(at, other[place][0]), others | other[place][1])
            for place, (at, others) in one.items() if place in other}


class LockFlows:
    """Analyses functions of one runtime; each is analysed once."""

    def __init__(self, functions: Functions, frames: FrameReader) -> None:
        self._functions = functions
        self._frames = frames

    @remembered
    def of(self, code: int) -> LockFlow | None:
        """The analysis of a function (``PyCodeObject *``); None if it cannot be analysed, or has no call to analyse."""
        opcodes = self._functions.opcodes
        try:
            names = self._frames.names_of(code)
            if opcodes is None or names.keys().isdisjoint(LOCK_NAMES):
                return None
            bytecode = self._functions.bytecode(code)
            if bytecode is None:
                return None
            return LockFlow(bytecode, find_lock_calls(bytecode, self._functions.names(code), opcodes.version))
        except (GdbextError, IndexError):
            return None
