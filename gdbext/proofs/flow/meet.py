"""Joins the states of paths that meet: what must be so on all of them, and what may be so on one."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from gdbext.proofs.flow.escape import escape_frame, locks_of, tracked
from gdbext.proofs.flow.locks import has_taken, in_both
from gdbext.proofs.flow.state import Base, State, Taken, Value


def meet(address: int, known: State | None, other: State) -> State:
    """Join two states at an address where paths meet; `known` is the result of the paths before."""
    if known is None:
        return other.copy()
    if known.is_same(other):
        return known
    differ, bases = _different(address, known, other)
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
    _meet_aliases(made, known, other, {name: ("met", address, name) for name in differ - dead}, bases)
    made.attempts = {base: attempt for base, attempt in ours.attempts.items() if theirs.attempts.get(base) == attempt}
    _meet_taken(made, ours, theirs)
    return made


def _different(address: int, known: State, other: State) -> tuple[set[str], set[Base]]:
    """The registers with different values, and the bases of their new ones."""
    differ: set[str] = set()
    bases: set[Base] = set()
    while True:
        more = {name for name in other.cpu.GENERAL if name not in differ and (
                name not in known.values or name not in other.values or known.values[name] != other.values[name]
                or known.values[name].base in bases)}
        if not more:
            return differ, bases
        differ |= more
        bases |= {("met", address, name) for name in more}


def _meet_taken(made: State, ours: State, theirs: State) -> None:
    for at in {**ours.taken, **theirs.taken}:
        one, two = ours.taken.get(at), theirs.taken.get(at)
        if one is None or two is None:
            only, rest = (one, theirs) if one is not None else (two, ours)
            if only is not None:
                made.taken[at] = only._replace(always=only.always and has_taken(rest, only.lock))
        else:
            made.taken[at] = Taken(one.lock if one.lock == two.lock else None, one.always and two.always,
                                   one.kept and two.kept)


def _meet_aliases(made: State, known: State, other: State, differ: Mapping[str, Base],
                  bases: Collection[Base]) -> None:
    """Join what two states know of copies of addresses.

    :param differ: the bases of registers that have different values.
    """
    aliases: dict[Base, set[Value]] = {}
    spilled: set[Value] = set()
    for state in (known, other):
        for base, values in state.aliases.items():
            aliases.setdefault(base, set()).update(values)
        for name, base in differ.items():
            found = tracked(state, [state.values.get(name)])
            if found:
                aliases.setdefault(base, set()).update(found)
        spilled |= state.spilled | tracked(state, (
            value for place, value in state.values.items()
            if not isinstance(place, str) and state.is_stack(place) and made.values.get(place) != value))
        escape_frame(made, state.escaped)
    if not aliases and not spilled:
        return
    locks, used = locks_of(made), {value.base for value in made.values.values()}

    def still(values: Iterable[Value]) -> frozenset[Value]:
        return frozenset(value for value in values
                         if value.base not in bases and (value in locks or made.is_stack(value)))

    made.spilled = still(spilled)
    made.aliases = {base: kept for base, values in aliases.items() if base in used for kept in [still(values)] if kept}
