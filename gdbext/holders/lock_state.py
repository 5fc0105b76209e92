"""What is known at one place in machine code: values of registers and memory, and the locks that are held there.

States of several paths meet where the paths do; then only what all of them have in common is known.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import field
from typing import NamedTuple, Union

from gdbext.arch.protocol import Architecture
from gdbext.record import record

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

    `called` are the functions that were called on some path and have returned, with None for one that is not known.

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
        self.called: frozenset[int | None] = frozenset()

    @classmethod
    def at_entry(cls, cpu: Architecture) -> State:
        """The state at a function's entry."""
        return cls(cpu, {name: entry(name) for name in cpu.GENERAL}, freed=frozenset())

    def copy(self) -> State:
        """A copy, to be changed."""
        made = State(self.cpu, dict(self.values), dict(self.held), self.is_zero, self.freed)
        made.compared, made.attempts, made.taken = self.compared, dict(self.attempts), dict(self.taken)
        made.called = self.called
        return made

    def is_same(self, other: State) -> bool:
        """Whether two states say the same."""
        return (self.values == other.values and self.held == other.held and self.is_zero == other.is_zero
                and self.compared == other.compared and self.attempts == other.attempts and self.freed == other.freed
                and self.taken == other.taken and self.called == other.called)

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

    def lose(self, lock: Value | None) -> None:
        """Take a lock for one that is perhaps not held any more: code that is not known may use its address."""
        if lock is not None:
            self.held.pop(lock, None)

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


def meet(address: int, known: State | None, other: State) -> State:
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
    made = State(other.cpu, values, in_both(ours.held, theirs.held), is_zero, freed)
    made.compared = ours.compared if ours.compared == theirs.compared else None
    made.called = ours.called | theirs.called
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


def in_both(known: Held | None, other: Held) -> Held:
    """Locks that are held on both of two paths."""
    if known is None:
        return other
    return {lock: released | other[lock] for lock, released in known.items() if lock in other}


@record
class Effect:
    """The effect of a function's call on locks, in terms of the registers at the call.

    `acquires` are locks that it holds when it returns; `guards` are words of memory that contain the address of such a
    lock then. It may release `releases`, and any lock if `releases_unknown`. With an `attempt` it holds that lock if
    its result is zero (True) or is not (False). `result` is its result if that is always the same constant or computed
    from an argument. `taken` are the locks that it may hold when it returns.
    """

    acquires: Mapping[Value, frozenset[int]] = field(default_factory=dict)
    guards: Mapping[Value, frozenset[int]] = field(default_factory=dict)
    releases: tuple[Value, ...] = ()
    releases_unknown: bool = False
    attempt: Attempt | None = None
    result: Value | None = None
    taken: tuple[Taken, ...] = ()


@record
class Reach:
    """What may happen to addresses that a function gets: code that is not known may use them, now or later.

    `unknown`: the function, or one that it calls, calls such code. `stores` are the places where it stores values: the
    registers of the arguments that point to them, and None for any other memory outside its frame.
    """

    unknown: bool = False
    stores: frozenset[str | None] = frozenset()


NO_EFFECT = Effect()
ANY_LOCK = Effect(releases_unknown=True)
NO_REACH = Reach()
ANY_REACH = Reach(unknown=True)
