"""What is known at one place in machine code: the values of registers and of words of memory, and the state of locks.

`locks.py` changes what is known of locks, `escape.py` what is known of copies of addresses, and `meet.py` joins the
states of several paths.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple, Union

from gdbext.arch.protocol import Architecture, Instruction, MemoryOperand

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
    """The known values of registers and memory, and the locks, at one place in the code.

    What is known must be so on every path to that place. The value of any other register or word is unknown. Each lock
    in `held` comes with the addresses that were released since: the lock is held unless it has one of these addresses.
    `is_zero` is the result of the last comparison with zero, None if it is unknown; `compared` is the base of an
    unknown value that was compared with zero. `ones` are the bits that are set in the values that have a base.
    `attempts` are the locks whose acquisition may have failed, by the base of the result.

    Other facts may be so on some path. `called` are the functions that were called and have returned, with None for one
    that is not known. `freed` are other locks that may have been released since the function's entry, None if any lock
    may have been. `taken` are the locks that may have been acquired; only some analyses need them.

    Copies of an address that are not tracked exactly: `aliases` are what the unknown values with a base may be, and
    `spilled` what words of the function's own frame may be. Both contain locks and addresses in the frame. `escaped` is
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
        self.aliases: dict[Base, frozenset[Value]] = {}
        self.spilled: frozenset[Value] = frozenset()
        self.escaped: int | None = None
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
        made.aliases, made.spilled, made.escaped = dict(self.aliases), self.spilled, self.escaped
        made.dead = self.dead
        return made

    def is_same(self, other: State) -> bool:
        """Whether two states say the same."""
        return (self.values == other.values and self.held == other.held and self.is_zero == other.is_zero
                and self.compared == other.compared and self.attempts == other.attempts and self.freed == other.freed
                and self.taken == other.taken and self.called == other.called and self.ones == other.ones
                and self.aliases == other.aliases and self.spilled == other.spilled and self.escaped == other.escaped
                and self.dead == other.dead)

    def flags(self, is_zero: bool | None = None, compared: Base | None = None) -> None:
        """Set the result of the last comparison."""
        self.is_zero, self.compared = is_zero, compared

    # -- values ----------------------------------------------------------------------------------------------------

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
        if self.spilled:
            self.spilled = without(self.spilled, bases)
        if self.aliases:
            self.aliases = {base: without(values, bases) for base, values in self.aliases.items() if base not in bases}
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

    def address_of(self, operand: MemoryOperand, instruction: Instruction) -> Value | None:
        """The address of an operand; None if it is not the sum of a register and a constant."""
        place = operand.simple(instruction.next_address)
        if place is None:
            return None
        register, distance = place
        return Value(CONSTANT, distance) if register is None else self.register(
            register, instruction.address).plus(distance)

    def constant(self, register: str | None, size: int) -> int | None:
        """The lowest bytes of a register, if they are constant."""
        value = self.values.get(register) if register is not None else None
        return value.offset & (1 << 8 * size) - 1 if value is not None and value.base == CONSTANT else None

    def ones_of(self, name: str) -> int:
        """The bits that are known to be set in a register."""
        value = self.values.get(name)
        if value is None:
            return 0
        return value.offset if value.base == CONSTANT else 0 if value.offset else self.ones.get(value.base, 0)

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

    def is_stack(self, address: Value) -> bool:
        """Whether an address is made from the stack pointer at the function's entry."""
        return address.base == self.frame


def without(values: frozenset[Value], bases: Collection[Base]) -> frozenset[Value]:
    """The values that do not use some bases."""
    return frozenset(value for value in values if value.base not in bases)
