"""Data-flow analysis of machine code: the locks that a function holds at a place in its code, without symbols.

The analysis follows every path from the function's entry. It knows the functions that acquire and release locks, and
tracks their arguments through registers and memory. A lock is held at a place if every path to that place acquires it,
and none releases it afterwards. The release of an unknown lock ends the proof for all locks that it may be.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import field
from typing import NamedTuple, Union

from gdbext.arch.protocol import Architecture, Assignment, Instruction, MemoryOperand
from gdbext.errors import GdbextError, if_unreadable
from gdbext.inferior.cache import read_u64
from gdbext.inferior.protocol import Module, Target
from gdbext.record import record
from gdbext.remembered import remembered
from gdbext.threads.code import Code
from gdbext.threads.function_code import iter_branches

#: Bounds: bytes of one function, callees that are analysed, depth of calls, separate parts of one function,
#: rounds of the analysis for each block.
_MAX_FUNCTION, _MAX_CALLEES, _MAX_DEPTH, _MAX_PARTS, _MAX_ROUNDS = 1 << 14, 200, 6, 4, 24
_MAX_TABLE = 512
#: Most locks that one call may acquire.
_MAX_TAKEN = 8
#: Most bytes of a function that does nothing but return a constant, as __gthread_active_p without optimisation.
_MAX_CONSTANT = 32
#: Most bytes of one function, and most functions, that are searched for calls.
_MAX_SEARCH, _MAX_SEARCHED = 1 << 20, 5000

Base = tuple[object, ...]


class Value(NamedTuple):
    """An address that the analysis tracks: an unknown `base` plus a known `offset`.

    `base` is the place where the unknown part first appears: the function's entry, an instruction, or a place where
    several paths meet. With the base `CONSTANT` the offset is the address itself.
    """

    base: Base
    offset: int

    def plus(self, offset: int) -> Value:
        """The address `offset` bytes further."""
        return Value(self.base, self.offset + offset)


CONSTANT: Base = ("constant",)
#: The base of the only lock of a library, to which no argument points: `ONLY` and the library's path.
ONLY = "only"
#: Locks, each with the addresses that it cannot have; see `State`.
Held = dict[Value, frozenset[int]]
#: A lock that is held if a value is zero (True) or is not (False).
Attempt = tuple[Value, bool]
#: Locks that calls may have acquired, by the call and a number; see `State`.
TakenAt = tuple[int, int]
#: Where a value is stored: a register by name, or the word of memory at an address.
Place = Union[str, Value]


class Taken(NamedTuple):
    """A lock that a call may have acquired, or has tried to acquire with a result that was not compared with zero yet.

    `lock` is None if it is not known which one. `always`: every path makes such a call for it. `kept`: no path may have
    released it afterwards.
    """

    lock: Value | None
    always: bool
    kept: bool


def entry(register: str) -> Value:
    """The value of a register at the function's entry."""
    return Value(("entry", register), 0)


class State:
    """The known values of registers and memory, and the held locks, at one place in the code.

    The value of any other register or word is unknown. Each lock in `held` comes with the addresses that were released
    since: the lock is held unless it has one of these addresses. `is_zero` is the result of the last comparison with
    zero, None if it is unknown; `compared` is the base of an unknown value that was compared with zero.

    `attempts` are the locks whose acquisition may have failed, by the base of the result. `freed` are the addresses of
    other locks that may have been released since the function's entry, None if any lock may have been. `taken` are the
    locks that may have been acquired on some path.
    """

    def __init__(self, cpu: Architecture, values: dict[Place, Value], held: Held | None = None,
                 is_zero: bool | None = None, freed: frozenset[int] | None = None) -> None:
        self.cpu = cpu
        self.values = values
        self.held: Held = held if held is not None else {}
        self.is_zero = is_zero
        self.compared: Base | None = None
        self.attempts: dict[Base, Attempt] = {}
        self.freed = freed
        self.taken: dict[TakenAt, Taken] = {}

    @classmethod
    def at_entry(cls, cpu: Architecture) -> State:
        """The state at a function's entry."""
        return cls(cpu, {name: entry(name) for name in cpu.GENERAL}, freed=frozenset())

    def copy(self) -> State:
        """A copy, to be changed."""
        made = State(self.cpu, dict(self.values), dict(self.held), self.is_zero, self.freed)
        made.compared, made.attempts, made.taken = self.compared, dict(self.attempts), dict(self.taken)
        return made

    def is_same(self, other: State) -> bool:
        """Whether two states say the same."""
        return (self.values == other.values and self.held == other.held and self.is_zero == other.is_zero
                and self.compared == other.compared and self.attempts == other.attempts and self.freed == other.freed
                and self.taken == other.taken)

    def flags(self, is_zero: bool | None = None, compared: Base | None = None) -> None:
        """Set the result of the last comparison."""
        self.is_zero, self.compared = is_zero, compared

    def branch(self, is_zero: bool) -> None:
        """Continue on a path that is taken only if the last comparison with zero had this result."""
        attempt = self.attempts.get(self.compared) if self.compared is not None else None
        if attempt is not None and attempt[1] == is_zero:
            self.held[attempt[0]] = frozenset()
        elif attempt is not None:
            self.taken = {at: taken for at, taken in self.taken.items() if taken.lock != attempt[0]}

    def forget(self, bases: Collection[Base]) -> None:
        """Drop all values that use these bases, which will stand for new values."""
        self.values = {place: value for place, value in self.values.items()
                       if value.base not in bases and not (isinstance(place, Value) and place.base in bases)}
        self.held = {lock: released for lock, released in self.held.items() if lock.base not in bases}
        self.attempts = {base: attempt for base, attempt in self.attempts.items()
                         if base not in bases and attempt[0].base not in bases}
        if self.compared in bases:
            self.compared = None
        for at, taken in self.taken.items():
            if taken.lock is not None and taken.lock.base in bases:
                self.taken[at] = taken._replace(lock=None)

    def fresh(self, address: int, place: Place) -> Value:
        """A new unknown value, which the instruction at an address stores."""
        base = ("made", address, place)
        self.forget((base,))
        return Value(base, 0)

    def register(self, name: str, address: int) -> Value:
        """The value of a register before the instruction at an address."""
        if name not in self.values:
            self.values[name] = self.fresh(address, name)
        return self.values[name]

    def store(self, at: Value | None, size: int | None, value: Value | None) -> None:
        """Write memory, after which all words that may overlap are unknown.

        Pointers of different origin may be equal. Only those made from the stack pointer are assumed to point to the
        function's own frame.
        """
        for place in [place for place in self.values if isinstance(place, Value)]:
            if at is not None and place.base == at.base:
                if size is None or place.offset < at.offset + size and at.offset < place.offset + 8:
                    del self.values[place]
            elif not self.is_stack(place) and (at is None or not self.is_stack(at)):
                del self.values[place]
        if at is not None and value is not None and size == 8:
            self.values[at] = value

    def release(self, lock: Value | None) -> None:
        """Release a lock, and all locks that may be the same; None is any lock."""
        self.taken = {at: taken._replace(kept=False) if self._may_be(taken, lock) else taken
                      for at, taken in self.taken.items()}
        if lock is None:
            self.held, self.attempts, self.freed = {}, {}, None
            return
        # the lock that the function itself has acquired is not one that its caller holds, or is acquired twice
        if lock not in self.held and self.freed is not None:
            self.freed = self.freed | {lock.offset} if lock.base == CONSTANT else None
        if lock.base == CONSTANT:
            self.held = {known: released if known.base == CONSTANT else released | {lock.offset}
                         for known, released in self.held.items() if known != lock}
        elif lock.base[0] == ONLY:
            self.held.pop(lock, None)
        else:
            self.held = {known: released for known, released in self.held.items()
                         if known.base == lock.base and known.offset != lock.offset}
        self.attempts = {base: attempt for base, attempt in self.attempts.items()
                         if attempt[0].base == lock.base and attempt[0].offset != lock.offset}

    def has_taken(self, lock: Value | None) -> bool:
        """Whether every path to this place has taken a lock and kept it."""
        return lock is not None and any(
            taken.lock == lock and taken.always and taken.kept for taken in self.taken.values())

    def _may_be(self, taken: Taken, released: Value | None) -> bool:
        """Whether the lock that was released may be one that was taken."""
        lock = taken.lock
        if released is None or lock is None:
            return released is None or released not in self.held
        # as in `release`, one that this path holds is the one that it releases
        return lock == released or released not in self.held and (
            lock.base != released.base or lock.base[0] == ONLY)

    def is_stack(self, address: Value) -> bool:
        """Whether an address is made from the stack pointer at the function's entry."""
        return address.base == ("entry", self.cpu.STACK_POINTER)


def _meet(address: int, known: State | None, other: State) -> State:
    """Merge two states at an address where paths meet; `known` is the result of the paths before."""
    if known is None:
        return other.copy()
    differ: set[str] = set()
    bases: set[Base] = set()
    while True:
        more = {name for name in other.cpu.GENERAL if name not in differ and (
                name not in known.values or name not in other.values or known.values[name] != other.values[name]
                or known.values[name].base in bases)}
        if not more:
            break
        differ |= more
        bases |= {("met", address, name) for name in more}
    ours, theirs = known.copy(), other.copy()
    ours.forget(bases)
    theirs.forget(bases)
    values = {place: value for place, value in ours.values.items()
              if place not in differ and theirs.values.get(place) == value}
    values.update((name, Value(("met", address, name), 0)) for name in differ)
    is_zero = ours.is_zero if ours.is_zero == theirs.is_zero else None
    freed = None if ours.freed is None or theirs.freed is None else ours.freed | theirs.freed
    made = State(other.cpu, values, _in_both(ours.held, theirs.held), is_zero, freed)
    made.compared = ours.compared if ours.compared == theirs.compared else None
    made.attempts = {base: attempt for base, attempt in ours.attempts.items() if theirs.attempts.get(base) == attempt}
    for at in {**ours.taken, **theirs.taken}:
        one, two = ours.taken.get(at), theirs.taken.get(at)
        if one is None or two is None:
            only, rest = (one, theirs) if one is not None else (two, ours)
            if only is not None:
                made.taken[at] = only._replace(always=only.always and rest.has_taken(only.lock))
        else:
            made.taken[at] = Taken(one.lock if one.lock == two.lock else None, one.always and two.always,
                                   one.kept and two.kept)
    return made


def _in_both(known: Held | None, other: Held) -> Held:
    """Locks that are held on both of two paths."""
    if known is None:
        return other
    return {lock: released | other[lock] for lock, released in known.items() if lock in other}


@record
class Effect:
    """The effect of a function's call on locks, in terms of the registers at the call.

    `acquires` are locks that it holds when it returns; `guards` are words of memory that contain the address of such a
    lock then. It may release `releases`, and any lock if `releases_unknown`. With an `attempt` it holds that lock if
    its result is zero (True) or is not (False). `result` is its result if that is always the same. `taken` are the
    locks that it may hold when it returns.
    """

    acquires: Mapping[Value, frozenset[int]] = field(default_factory=dict)
    guards: Mapping[Value, frozenset[int]] = field(default_factory=dict)
    releases: tuple[Value, ...] = ()
    releases_unknown: bool = False
    attempt: Attempt | None = None
    result: int | None = None
    taken: tuple[Taken, ...] = ()


NO_EFFECT = Effect()
_ANY = Effect(releases_unknown=True)


class _TooLarge(GdbextError):
    """The code exceeds the bounds of the analysis."""


class LockFlow:
    """Finds the locks that functions hold.

    :param effects: the effects of the functions that acquire and release locks, by address. They change no memory but
        the lock.
    :param outside: the files of the C library, whose other functions never release a lock of the program. Their
        messages are translated, for which they take locks of their own.
    """

    def __init__(self, target: Target, code: Code, effects: Mapping[int, Effect],
                 outside: Sequence[Module] = ()) -> None:
        self._target = target
        self._memory = target.memory
        self.code = code
        self.cpu = code.cpu
        self._outside = outside
        self._known = dict(effects)
        self._primitives = frozenset(effects)
        self.primitive_effects = [*effects.values()]
        self._functions: dict[int, _Function | None] = {}
        self._reaching: dict[tuple[frozenset[int], int, int], bool] = {}
        self._callees = 0

    def start_of(self, pc: int, entered: int | None = None) -> int | None:
        """The start of the function of a program counter; None if it is unknown.

        :param pc: for a caller, the address of any byte of its call.
        :param entered: the function whose call the frame is in, if it is known. The code may be a part of it that the
            compiler has placed apart.
        """
        found = self.code.function_range(pc)
        if found is None:
            return None
        for start in {entered, *self._jumps_into(found)} - {None, found[0]}:
            whole = self._function(start, 0) if start is not None and self.is_relevant(start) else None
            if whole is not None and whole.contains(pc):
                return start
        return found[0] if self.code.starts_function(found[0]) else None

    def _jumps_into(self, found: tuple[int, int]) -> Iterable[int]:
        """The functions into which code jumps behind their start, as code that is placed apart does to come back."""
        targets = self.calls(*found)[1] if found[1] - found[0] <= _MAX_SEARCH else ()
        ranges = ((at, self.code.function_range(at)) for at in targets)
        return [other[0] for at, other in ranges if other is not None and other[0] != at]

    def held_at(self, pc: int, entered: int | None = None) -> State | None:
        """The state before the instruction at a program counter; None if its function cannot be analysed.

        The parameters are those of `start_of`.
        """
        function = self._function_at(pc, entered)
        return function.before(pc) if function is not None else None

    def state_at(self, pc: int) -> State | None:
        """As `held_at`, also for a function that acquires and releases nothing."""
        start = self.start_of(pc)
        function = self._function(start, 0) if start is not None else None
        return function.before(pc) if function is not None else None

    def _function_at(self, pc: int, entered: int | None) -> _Function | None:
        start = self.start_of(pc, entered)
        return self._function(start, 0) if start is not None and self.is_relevant(start) else None

    def called_at(self, pc: int, entered: int | None = None) -> int | None:
        """The function that the call at a program counter calls."""
        function = self._function_at(pc, entered)
        called = function.called_at(pc) if function is not None else None
        try:
            return self.cpu.behind_stub(self._memory, called) if called is not None else None
        except GdbextError:
            return None

    def acquired_by(self, pc: int, lock: Value, entered: int | None = None) -> int | None:
        """The function whose call has acquired a lock that is held at a program counter."""
        function = self._function_at(pc, entered)
        return function.acquired_by.get(lock) if function is not None else None

    def is_relevant(self, start: int, depth: int = 0) -> bool:
        """Whether a function, or one that it calls, may call a function that acquires or releases."""
        return self.may_call(self._primitives, start, depth)

    def may_call(self, functions: frozenset[int], start: int, depth: int = 0) -> bool:
        """Whether the function at an address, or one that it calls, may call one of these functions.

        The bytes are searched without decoding them, so the answer may be true for a function that makes no such call.
        """
        key = functions, start, depth
        known = self._reaching.get(key)
        if known is None:
            self._reaching[key] = False  # for a recursive call; the outer call decides
            known = self._reaching[key] = self._search(functions, start, depth)
        return known

    def is_outside(self, address: int) -> bool:
        """Whether code is in the C library."""
        module = self.code.module(address)
        return any(module is part for part in self._outside)

    def _search(self, functions: frozenset[int], start: int, depth: int) -> bool:
        found = self.code.function_range(start)
        module = self.code.module(start)
        if found is None or any(module is part for part in self._outside):
            return False
        if found[1] - found[0] > _MAX_SEARCH or len(self._reaching) > _MAX_SEARCHED:
            return True  # unknown, so it counts as a release of any lock
        called, callees = self.calls(*found)
        return not functions.isdisjoint(called) or depth < _MAX_DEPTH and any(
            self.may_call(functions, callee, depth + 1) for callee in callees)

    @remembered
    def calls(self, start: int, end: int) -> tuple[frozenset[int], Sequence[int]]:
        """The functions that code may call, also behind stubs and slots; and those that it calls directly, in order."""
        called: set[int] = set()
        callees: list[int] = []
        try:
            for _, at, function, _ in iter_branches(self._memory, self.code, start, end):
                called.add(function)
                if function == at and not start <= at < end:
                    callees.append(at)
            # a function that is called several times may be called through a register
            loads = self.cpu.iter_loads(self._memory.read(start, end - start), start)
            called.update(word for word in map(self._loaded, loads) if word is not None)
        except GdbextError:
            return frozenset(called), ()
        return frozenset(called), tuple(dict.fromkeys(callees))

    def _function(self, start: int, depth: int) -> _Function | None:
        if start not in self._functions:
            self._functions[start] = None  # for a recursive call
            found = self.code.function_range(start)
            if found is not None and self.code.starts_function(start):
                self._functions[start] = _analyse(self, found, depth)
        return self._functions[start]

    def effect(self, address: int, depth: int) -> Effect:
        """The effect of a call of the function at an address, or behind the stub there."""
        try:
            address = self.cpu.behind_stub(self._memory, address)
        except GdbextError:
            return NO_EFFECT
        known = self._known.get(address)
        if known is None:
            self._known[address] = _ANY  # for a recursive call
            known = self._known[address] = self._effect_of(address, depth)
        return known

    def _effect_of(self, address: int, depth: int) -> Effect:
        found = self.code.function_range(address)
        if found is None or found[0] != address:
            return NO_EFFECT
        if not self.is_relevant(address, depth) and found[1] - found[0] > _MAX_CONSTANT:
            return NO_EFFECT
        self._callees += 1
        if depth > _MAX_DEPTH or self._callees > _MAX_CALLEES:
            return _ANY
        function = self._function(address, depth)
        return function.effect() if function is not None else _ANY

    # -- for the analysis of one function ---------------------------------------------------------------------

    @if_unreadable(False)
    def is_stub(self, address: int) -> bool:
        """Whether an address is that of a stub, which leads to a function of another file."""
        return self.cpu.behind_stub(self._memory, address) != address

    def is_part(self, target: int, parts: Iterable[tuple[int, int]]) -> bool:
        """Whether a jump to an address, with an empty frame, leads to a part of the function and not to another one.

        Code that jumps back into the function's parts is one.
        """
        try:
            if self.cpu.behind_stub(self._memory, target) != target:
                return False
        except GdbextError:
            return False
        found = self.code.function_range(target)
        if found is None:
            return False
        return found[0] != target or not self.code.starts_function(target) or any(
            start < at < end for at in self.calls(*found)[1] for start, end in parts)

    def instructions(self, start: int, end: int) -> list[Instruction]:
        """The instructions of a piece of code.

        :raises GdbextError: it is too large or not readable.
        """
        if end - start > _MAX_FUNCTION:
            raise _TooLarge("the function is too large")
        self._memory.read(start, end - start)  # the debugger may disassemble unreadable memory as zeros
        return [self.cpu.parse(*each) for each in self._target.disassemble(start, end)]

    @if_unreadable(None)
    def _loaded(self, address: int) -> int | None:
        return read_u64(self._memory, address)

    @if_unreadable(None)
    def slot(self, address: int) -> int | None:
        """The word at an address, if it cannot have changed: it is in a table of the dynamic linker."""
        module = self.code.module(address)
        return read_u64(self._memory, address) if module is not None and self._is_fixed(module, address) else None

    def _is_fixed(self, module: Module, address: int) -> bool:
        section = next((each for each in module.sections if each.start <= address < each.end), None)
        if section is not None and section.name in (".got", ".got.plt", ".data.rel.ro", ".rodata"):
            return True
        region = self.code.space.find(address)
        return region is not None and region.permissions is not None and "w" not in region.permissions

    @if_unreadable(None)
    def table_entry(self, table: int, index: int) -> int | None:
        """The target of an entry in a table of distances."""
        return table + int.from_bytes(self._memory.read(table + 4 * index, 4), "little", signed=True)


@if_unreadable(None)
def _analyse(flow: LockFlow, found: tuple[int, int], depth: int) -> _Function | None:
    """Analyse a function; None if its code cannot be read, or exceeds the bounds."""
    function = _Function(flow, found[0], depth)
    function.add_part(*found)
    function.settle()
    return function


class _Function:
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
        self._released: list[Value | None] = []
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
            raise _TooLarge("the function has too many parts")
        self._settled = True
        for address in sorted(self._states):
            self._block(address)

    def add_part(self, start: int, end: int) -> None:
        """Add a range of the function's code."""
        if len(self._parts) >= _MAX_PARTS:
            raise _TooLarge("the function has too many parts")
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
                    raise _TooLarge("the analysis does not end")
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
        state, at = self._states[leader].copy(), leader
        while at in self._code:
            instruction = self._code[at]
            is_taken = _is_taken(instruction, state)
            if is_taken is not False or instruction.kind != "jump":
                self._step(instruction, state)
            if not instruction.falls_through or is_taken:
                return
            if instruction.kind == "jump" and instruction.condition in ("equal", "unequal"):
                state.branch(instruction.condition == "unequal")
            at = instruction.next_address
            if at in self._leaders:
                self._reach(at, state)
                return

    def _reach(self, address: int, state: State) -> None:
        if self._settled or address not in self._code:
            return
        known = self._states.get(address)
        met = _meet(address, known, state)
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
        """The effect of a call of the function."""
        if not self._exits:
            return NO_EFFECT if not self._released else _ANY
        attempts = {self._attempt(state) for state in self._exits}
        results = {state.values.get(state.cpu.RESULT) for state in self._exits}
        result = results.pop() if len(results) == 1 else None
        acquires: Held | None = None
        guards: Held | None = None
        for state in self._exits:
            locks = {lock: released for lock, released in state.held.items() if self._is_passed(lock)}
            words = {place: state.held[value] for place, value in state.values.items()
                     if isinstance(place, Value) and value in state.held and self._is_passed(place)}
            acquires = _in_both(acquires, locks)
            guards = _in_both(guards, words)
        releases = tuple(value for value in dict.fromkeys(self._released)
                         if value is not None and self._is_passed(value))
        unknown = any(value is None or not self._is_passed(value) for value in self._released)
        return Effect(acquires or {}, guards or {}, releases, unknown,
                      attempts.pop() if len(attempts) == 1 else None,
                      result.offset if result is not None and result.base == CONSTANT else None, self._taken())

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
            state.store(self._address(made.target, instruction, state), 8, value)
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

    # -- calls, jumps, returns -------------------------------------------------------------------------------

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
        arguments = {name: state.values[name] for name in state.cpu.ARGUMENTS if name in state.values}
        if not any(effect is known for known in self._flow.primitive_effects):
            self._call_writes(arguments.values(), state)
        self._release(effect, arguments, state)
        self._acquire(effect, arguments, state, instruction.address, called)
        for name in state.cpu.CALLER_SAVED:
            state.values.pop(name, None)
        state.flags()
        if effect.result is not None:
            state.values[state.cpu.RESULT] = Value(CONSTANT, effect.result)
        lock = _translate(effect.attempt[0], arguments) if effect.attempt is not None else None
        if effect.attempt is not None and lock is not None and called is not None:
            self.acquired_by[lock] = called
            result = state.values[state.cpu.RESULT] = state.fresh(instruction.address, state.cpu.RESULT)
            state.attempts[result.base] = lock, effect.attempt[1]

    def _call_writes(self, arguments: Iterable[Value], state: State) -> None:
        """Forget the memory that a call may change: all but the own frame below the lowest pointer argument."""
        lowest = min((value.offset for value in arguments if state.is_stack(value)), default=None)
        for place in [place for place in state.values if isinstance(place, Value)]:
            if not state.is_stack(place) or lowest is not None and place.offset >= lowest:
                del state.values[place]

    def _release(self, effect: Effect, arguments: Mapping[str, Value], state: State) -> None:
        released: list[Value | None] = [_translate(value, arguments) for value in effect.releases]
        if effect.releases_unknown:
            released.append(None)
        for lock in released:
            if self._settled and (lock is None or lock not in state.held):
                self._released.append(lock)
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
                raise _TooLarge("the target of a jump is unknown")
        elif self.contains(target):
            self._reach(target, _taken(instruction, state))
        elif leaves and not self._flow.is_part(target, self._parts) or self._flow.is_stub(target):
            outside = state.copy()
            self._call(instruction, outside, target)
            self._exit(outside)
        else:  # a part that the compiler has put elsewhere
            part = self._flow.code.function_range(target)
            if part is None:
                raise _TooLarge("a jump leads to code without a frame description")
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
                    raise _TooLarge("the target of a jump is unknown")
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
