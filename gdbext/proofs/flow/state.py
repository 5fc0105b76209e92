"""What is known at one place in machine code: values of registers and memory, and the locks that are held there.

States of several paths meet where the paths do; then only what all of them have in common is known.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
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
#: Most locks that are known to be released.
_MAX_FREED = 16
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

    `ones` are the bits that are set on all paths in the values that have a base.

    `called` are the functions that were called on some path and have returned, with None for one that is not known.

    `attempts` are the locks whose acquisition may have failed, by the base of the result. `freed` are other
    locks that may have been released since the function's entry, None if any lock may have been. `taken` are the
    locks that may have been acquired on some path.

    Copies of an address that are not tracked exactly: `copies` are what the unknown values with a base may be, and
    `hidden` what words of the function's own frame may be. Both contain locks and addresses in the frame. `exposed` is
    the lowest address in the frame that is stored outside of it. `dead` are registers that a call has changed and that
    the function cannot use before it sets them.

    :param bases: what all states of one analysis share: the bases of all values so far.
    """

    def __init__(self, cpu: Architecture, values: dict[Place, Value], bases: set[Base], held: Held | None = None,
                 is_zero: bool | None = None, freed: frozenset[Value] | None = None) -> None:
        self.cpu = cpu
        self.bases = bases
        self.frame = ("entry", cpu.STACK_POINTER)
        self.values = values
        self.held: Held = held if held is not None else {}
        self.is_zero = is_zero
        self.compared: Base | None = None
        self.attempts: dict[Base, Attempt] = {}
        self.freed = freed
        self.taken: dict[TakenAt, Taken] = {}
        self.called: frozenset[int | None] = frozenset()
        self.ones: dict[Base, int] = {}
        self.copies: dict[Base, frozenset[Value]] = {}
        self.hidden: frozenset[Value] = frozenset()
        self.exposed: int | None = None
        self.dead: frozenset[str] = frozenset()

    @classmethod
    def at_entry(cls, cpu: Architecture) -> State:
        """The state at a function's entry."""
        return cls(cpu, {name: entry(name) for name in cpu.GENERAL}, set(), freed=frozenset())

    def copy(self) -> State:
        """A copy, to be changed."""
        made = State(self.cpu, dict(self.values), self.bases, dict(self.held), self.is_zero, self.freed)
        made.compared, made.attempts, made.taken = self.compared, dict(self.attempts), dict(self.taken)
        made.called, made.ones = self.called, dict(self.ones)
        made.copies, made.hidden, made.exposed = dict(self.copies), self.hidden, self.exposed
        made.dead = self.dead
        return made

    def is_same(self, other: State) -> bool:
        """Whether two states say the same."""
        return (self.values == other.values and self.held == other.held and self.is_zero == other.is_zero
                and self.compared == other.compared and self.attempts == other.attempts and self.freed == other.freed
                and self.taken == other.taken and self.called == other.called and self.ones == other.ones
                and self.copies == other.copies and self.hidden == other.hidden and self.exposed == other.exposed
                and self.dead == other.dead)

    def ones_of(self, name: str) -> int:
        """The bits that are known to be set in a register."""
        value = self.values.get(name)
        if value is None:
            return 0
        return value.offset if value.base == CONSTANT else 0 if value.offset else self.ones.get(value.base, 0)

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
        if self.bases.isdisjoint(bases):
            self.bases.update(bases)
            return  # as an instruction does that is followed for the first time
        if self.freed is not None and any(lock.base in bases for lock in self.freed):
            self.freed = None
        self.values = {place: value for place, value in self.values.items()
                       if value.base not in bases and not (isinstance(place, Value) and place.base in bases)}
        self.held = {lock: released for lock, released in self.held.items() if lock.base not in bases}
        self.attempts = {base: attempt for base, attempt in self.attempts.items()
                         if base not in bases and attempt[0].base not in bases}
        if self.compared in bases:
            self.compared = None
        self.ones = {base: ones for base, ones in self.ones.items() if base not in bases}
        if self.hidden:
            self.hidden = _without(self.hidden, bases)
        if self.copies:
            self.copies = {base: _without(values, bases) for base, values in self.copies.items() if base not in bases}
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
        """Release a lock, and all locks that may be the same; None is any lock.

        A lock that every path holds is not the same as another one that they hold too: a second acquisition has
        succeeded, and one release ends one of them.
        """
        self.taken = {at: taken._replace(kept=False) if self._may_be(taken, lock) else taken
                      for at, taken in self.taken.items()}
        if lock is None:
            self.held, self.attempts, self.freed = {}, {}, None
            return
        if self.held.pop(lock, None) is not None:
            self.attempts = {base: attempt for base, attempt in self.attempts.items() if attempt[0] != lock}
            return
        if self.freed is not None:
            self.freed = self.freed | {lock} if len(self.freed) < _MAX_FREED else None
        if lock.base == CONSTANT:
            self.held = {known: released if known.base == CONSTANT else released | {lock.offset}
                         for known, released in self.held.items()}
        elif lock.base[0] != ONLY:
            self.held = {known: released for known, released in self.held.items()
                         if known.base == lock.base and known.offset != lock.offset}
        self.attempts = {base: attempt for base, attempt in self.attempts.items()
                         if attempt[0].base == lock.base and attempt[0].offset != lock.offset}

    def lose(self, lock: Value | None) -> None:
        """Take a lock for one that is perhaps not held any more: code that is not known may use its address."""
        for each in self.may_be(lock):
            self.held.pop(each, None)

    # -- copies of addresses ---------------------------------------------------------------------------------------

    def may_be(self, value: Value | None) -> Collection[Value]:
        """The value, and those that it may be equal to as it is a copy of one of them."""
        return (value, *self.copies.get(value.base, ())) if value is not None else ()

    @property
    def locks(self) -> Collection[Value]:
        """The locks that are held, or whose acquisition may have failed."""
        return {*self.held, *[lock for lock, _ in self.attempts.values()]} if self.attempts else self.held.keys()

    def followed(self, values: Iterable[Value | None]) -> frozenset[Value]:
        """The locks, and the addresses in the function's own frame, that values may be."""
        locks, copies, found = self.locks, self.copies, set()
        for value in values:
            if value is not None:
                if value.base == self.frame or value in locks:
                    found.add(value)
                if value.base in copies:
                    found.update(each for each in copies[value.base] if each.base == self.frame or each in locks)
        return frozenset(found)

    def in_frame(self, lowest: int | None) -> frozenset[Value]:
        """The same of the words in the frame at and above an address; None if there are none."""
        if lowest is None:
            return frozenset()
        return self.hidden | self.followed(value for place, value in self.values.items()
                                           if not isinstance(place, str) and self.is_stack(place)
                                           and place.offset >= lowest)

    def lowest(self, values: Iterable[Value | None]) -> int | None:
        """The lowest place in the function's own frame that one of some values may point to."""
        return min((each.offset for value in values for each in self.may_be(value) if self.is_stack(each)),
                   default=None)

    def reached(self, arguments: Iterable[Value | None], is_only: bool = False) -> int | None:
        """The lowest place in the frame to which code gets by some values, also through words of the frame.

        :param is_only: the code does not use addresses that are stored outside of the frame.
        """
        found = self.lowest(arguments)
        if self.exposed is not None and not is_only:
            found = min(self.exposed, found if found is not None else self.exposed)
        lower = found
        while lower is not None:
            found, lower = lower, self.lowest(self.in_frame(lower))
            if lower is None or lower >= found:
                break
        return found

    def expose(self, lowest: int | None) -> None:
        """Note that an address in the frame may be stored outside of it."""
        if lowest is not None:
            self.exposed = min(lowest, self.exposed if self.exposed is not None else lowest)

    def made(self, address: int, name: str, copy_of: frozenset[Value]) -> None:
        """Set a register to a new unknown value, which may be a copy of one of some values."""
        value = self.values[name] = self.fresh(address, name)
        self.note_copy(value, copy_of)

    def note_copy(self, value: Value, copy_of: frozenset[Value]) -> None:
        """Note that a new unknown value may be a copy of one of some values."""
        copy_of = _without(copy_of, (value.base,))
        if copy_of:
            self.copies[value.base] = copy_of

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
        return address.base == self.frame


def _without(values: frozenset[Value], bases: Collection[Base]) -> frozenset[Value]:
    return frozenset(value for value in values if value.base not in bases)


def meet(address: int, known: State | None, other: State) -> State:
    """Merge two states at an address where paths meet; `known` is the result of the paths before."""
    if known is None:
        return other.copy()
    if known.is_same(other):
        return known
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
    ours, theirs = known, other
    if not known.bases.isdisjoint(bases):
        ours, theirs = known.copy(), other.copy()
        ours.forget(bases)
        theirs.forget(bases)
    known.bases.update(bases)
    values = {place: value for place, value in ours.values.items()
              if place not in differ and theirs.values.get(place) == value}
    # a register that a call has changed on one of the paths is not used any more
    dead = frozenset(name for name in differ for state in (known, other)
                     if name not in state.values and name in state.dead)
    values.update((name, Value(("met", address, name), 0)) for name in differ - dead)
    ones = {base: bits & theirs.ones.get(base, 0) for base, bits in ours.ones.items()}
    ones.update((("met", address, name), known.ones_of(name) & other.ones_of(name)) for name in differ)
    is_zero = ours.is_zero if ours.is_zero == theirs.is_zero else None
    freed = None if ours.freed is None or theirs.freed is None else ours.freed | theirs.freed
    made = State(other.cpu, values, known.bases, in_both(ours.held, theirs.held), is_zero, freed)
    made.compared = ours.compared if ours.compared == theirs.compared else None
    made.called = ours.called | theirs.called
    made.ones = {base: bits for base, bits in ones.items() if bits}
    made.dead = dead
    _meet_copies(made, known, other, {name: ("met", address, name) for name in differ - dead}, bases)
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


def _meet_copies(made: State, known: State, other: State, differ: Mapping[str, Base], bases: Collection[Base]) -> None:
    """Merge what two states know of copies of addresses.

    :param differ: the bases of registers that have different values.
    """
    copies: dict[Base, set[Value]] = {}
    hidden: set[Value] = set()
    for state in (known, other):
        for base, values in state.copies.items():
            copies.setdefault(base, set()).update(values)
        for name, base in differ.items():
            found = state.followed([state.values.get(name)])
            if found:
                copies.setdefault(base, set()).update(found)
        hidden |= state.hidden | state.followed(
            value for place, value in state.values.items()
            if not isinstance(place, str) and state.is_stack(place) and made.values.get(place) != value)
        made.expose(state.exposed)
    if not copies and not hidden:
        return
    locks, used = made.locks, {value.base for value in made.values.values()}

    def still(values: Iterable[Value]) -> frozenset[Value]:
        return frozenset(value for value in values
                         if value.base not in bases and (value in locks or made.is_stack(value)))

    made.hidden = still(hidden)
    made.copies = {base: kept for base, values in copies.items() if base in used for kept in [still(values)] if kept}


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
    from an argument. `taken` are the locks that it may hold when it returns. The attempt does not fail if the register
    `wait_flag` contains a constant other than 0. With `suspends`, other threads may change memory before it returns.
    """

    acquires: Mapping[Value, frozenset[int]] = field(default_factory=dict)
    guards: Mapping[Value, frozenset[int]] = field(default_factory=dict)
    releases: tuple[Value, ...] = ()
    releases_unknown: bool = False
    attempt: Attempt | None = None
    result: Value | None = None
    taken: tuple[Taken, ...] = ()
    wait_flag: str | None = None
    suspends: bool = False


@record
class Reach:
    """What may happen to addresses that a function gets: code that is not known may use them, now or later.

    `unknown`: the function, or one that it calls, calls such code. `stores` are the places where it stores values: the
    registers of the arguments that point to them, and None for any other memory outside its frame. `copies` are the
    places to which it may only copy memory that arguments point to. `uses` are the arguments that it may read.
    """

    unknown: bool = False
    stores: frozenset[str | None] = frozenset()
    copies: frozenset[str | None] = frozenset()
    uses: frozenset[str] = frozenset()


NO_EFFECT = Effect()
ANY_LOCK = Effect(releases_unknown=True)
