"""Where the addresses of locks may have got to: copies that are not tracked exactly, the frame, and memory outside it.

A lock whose address has escaped may be released by code that is not known, so nothing proves any more that it is held.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from gdbext.proofs.flow.state import State, Value, without


def escape(state: State, value: Value | None) -> None:
    """Have a value escape: no lock that it may be the address of is held for sure any more."""
    for each in may_be(state, value):
        state.held.pop(each, None)


def escape_all(state: State, values: Iterable[Value]) -> None:
    """Have several values escape."""
    for value in values:
        escape(state, value)


def escape_by_call(state: State, arguments: Mapping[str, Value], in_memory: bool = False) -> None:
    """Have the values escape that a call gets, by arguments or by memory that arguments point to.

    :param in_memory: only by memory.
    """
    lowest = reached(state, arguments.values(), is_only=in_memory)
    for place, value in [*state.values.items()]:
        if (place in arguments and not in_memory if isinstance(place, str) else
                not state.is_stack(place) or lowest is not None and place.offset >= lowest):
            escape(state, value)
    if lowest is not None:
        escape_all(state, state.spilled)


def may_be(state: State, value: Value | None) -> Collection[Value]:
    """A value, and those that it may be equal to as it is a copy of one of them."""
    return (value, *state.aliases.get(value.base, ())) if value is not None else ()


def locks_of(state: State) -> Collection[Value]:
    """The locks that are held, or whose acquisition may have failed."""
    if not state.attempts:
        return state.held.keys()
    return {*state.held, *[lock for lock, _ in state.attempts.values()]}


def tracked(state: State, values: Iterable[Value | None]) -> frozenset[Value]:
    """The locks, and the addresses in the function's own frame, that values may be."""
    locks, aliases, found = locks_of(state), state.aliases, set()
    for value in values:
        if value is not None:
            if value.base == state.frame or value in locks:
                found.add(value)
            if value.base in aliases:
                found.update(each for each in aliases[value.base] if each.base == state.frame or each in locks)
    return frozenset(found)


def in_frame(state: State, lowest: int | None) -> frozenset[Value]:
    """The same of the words in the frame at and above an address; None if there are none."""
    if lowest is None:
        return frozenset()
    return state.spilled | tracked(state, (value for place, value in state.values.items()
                                           if not isinstance(place, str) and state.is_stack(place)
                                           and place.offset >= lowest))


def lowest_pointer(state: State, values: Iterable[Value | None]) -> int | None:
    """The lowest place in the function's own frame that one of some values may point to."""
    return min((each.offset for value in values for each in may_be(state, value) if state.is_stack(each)),
               default=None)


def reached(state: State, arguments: Iterable[Value | None], is_only: bool = False) -> int | None:
    """The lowest place in the frame to which code gets by some values, also through words of the frame.

    :param is_only: the code does not use addresses that are stored outside of the frame.
    """
    found = lowest_pointer(state, arguments)
    if state.escaped is not None and not is_only:
        found = min(state.escaped, found if found is not None else state.escaped)
    lower = found
    while lower is not None:
        found, lower = lower, lowest_pointer(state, in_frame(state, lower))
        if lower is None or lower >= found:
            break
    return found


def escape_frame(state: State, lowest: int | None) -> None:
    """Note that an address in the frame may be stored outside of it."""
    if lowest is not None:
        state.escaped = min(lowest, state.escaped if state.escaped is not None else lowest)


def note_alias(state: State, value: Value, of: frozenset[Value]) -> None:
    """Note that a new unknown value may be a copy of one of some values."""
    of = without(of, (value.base,))
    if of:
        state.aliases[value.base] = of
