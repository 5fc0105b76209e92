"""Recognises recursion in a deep stack: a round of calls that repeats, and how often."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

from gdbext.model import Frame, NativeFrame, Part

#: How many calls one round may have, how far from the top the repetition may begin, and how long it must be.
_MAX_ROUND, _MAX_START, MIN_LENGTH = 64, 64, 100
#: The depth from which a stack is searched for a repetition.
DEEP = 500
#: How long it must be in a stack that is used up, which may be a small one.
SMALL = 24
#: Which part of a stack it must be at least; Python and native frames that could not be merged are half of it each.
_LEAST_PART = 3


class Rounds(NamedTuple):
    """Elements from `start` on repeat every `period`, `times` whole times."""

    start: int
    period: int
    times: int

    @property
    def end(self) -> int:
        """Behind the last of them."""
        return self.start + self.period * self.times


def fold(parts: Sequence[Part], least: int = MIN_LENGTH) -> tuple[tuple[Part, ...], Rounds | None]:
    """Fold the repetition of a stack into one part; without one the parts are unchanged."""
    rounds = find_rounds([tuple(map(place_of, part.frames)) for part in parts], least)
    if rounds is None:
        return tuple(parts), None
    once = rounds.start + rounds.period
    what = f"the same {rounds.period} entries" if rounds.period > 1 else "the same entry"
    folded = Part(tuple(frame for part in parts[once:rounds.end] for frame in part.frames),
                  f"{what} {rounds.times - 1:,} times more")
    return (*parts[:once], folded, *parts[rounds.end:]), rounds


def place_of(frame: Frame) -> tuple[object, ...]:
    """The place of a frame in the code: equal for the frames of a recursion."""
    if isinstance(frame, NativeFrame):
        return (frame.pc,)
    return (frame.qualified_name, frame.file, frame.line)


def find_rounds(keys: Sequence[Hashable], least: int = MIN_LENGTH) -> Rounds | None:
    """The longest repetition that begins near the top of a stack; None if less than a third of the stack is one.

    :param keys: one for each frame, equal for frames of the same place in code; innermost first.
    :param least: how many frames it must have.
    """
    best: Rounds | None = None
    stops = {period: _stops(keys, period) for period in range(1, min(_MAX_ROUND, len(keys) // 2) + 1)}
    for start in range(min(_MAX_START, len(keys))):
        for period in range(1, min(_MAX_ROUND, (len(keys) - start) // 2) + 1):
            length = stops[period][start] - start
            if length == period:
                continue
            found = Rounds(start, period, length // period)
            if best is None or found.period * found.times > best.period * best.times:
                best = found
        if best is not None and best.period * best.times * 2 > len(keys):
            break
    if best is None or best.times < 3 or best.period * best.times < max(least, len(keys) // _LEAST_PART):
        return None
    return best


def _stops(keys: Sequence[Hashable], period: int) -> list[int]:
    """For each start, the index of the first element that differs from the one a period before; each is read once."""
    last = min(_MAX_START, len(keys)) - 1
    stop = min(last + period, len(keys))
    while stop < len(keys) and keys[stop] == keys[stop - period]:
        stop += 1
    found = [stop]
    for start in range(last - 1, -1, -1):
        if start + period < len(keys) and keys[start + period] != keys[start]:
            stop = start + period
        found.append(stop)
    return found[::-1]
