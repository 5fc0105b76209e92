"""What a function does for its callers: to locks, and to the addresses that it gets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Protocol

from gdbext.proofs.flow.state import Attempt, Taken, Value
from gdbext.record import record


@record
class Summary:
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
class Escapes:
    """What may happen to addresses that a function gets: code that is not known may use them, now or later.

    `unknown`: the function, or one that it calls, calls such code. `stores` are the places where it stores values: the
    registers of the arguments that point to them, and None for any other memory outside its frame. `copies` are the
    places to which it may only copy memory that arguments point to. `uses` are the arguments that it may read.
    """

    unknown: bool = False
    stores: frozenset[str | None] = frozenset()
    copies: frozenset[str | None] = frozenset()
    uses: frozenset[str] = frozenset()


NO_EFFECT = Summary()
ANY_LOCK = Summary(releases_unknown=True)


class Callees(Protocol):
    """The functions that a function calls; `depth` is the number of calls from the function that is asked about."""

    #: What a function may do that only copies memory to where its first argument points, as memcpy does.
    copying: Escapes
    #: Whether the locks that each path may have acquired are of interest.
    notes_taken: bool

    def summary(self, address: int, depth: int) -> Summary:
        """The effect of a call of the function at an address, or behind the stub there."""

    def escapes(self, address: int | None, depth: int) -> Escapes:
        """What may happen to addresses that a function gets; None is a function that is not known."""

    def is_primitive(self, summary: Summary) -> bool:
        """Whether a summary is that of a function that acquires or releases by definition, not by its code."""

    def is_late(self) -> bool:
        """Whether the time for all functions is over."""
