from __future__ import annotations

import random
import time
from collections.abc import Sequence

import pytest

from gdbext.model import NativeFrame, Part, PyFrame
from gdbext.stacks.recursion import SMALL, Rounds, find_rounds, fold


def stack(text: str, rounds: str, times: int, outside: str) -> list[str]:
    return [*text, *rounds * times, *outside]


@pytest.mark.parametrize(("inner", "round_", "times", "outer"), [
    ("", "a", 200, "xyz"), ("lib", "a", 200, "xyz"), ("lic", "ab", 100, "xyz"), ("", "abc", 1000, ""),
    ("q", "aabaab" + "c", 50, "z"), ("0123456789" * 6, "ab", 400, "z"),
])
def test_rounds(inner: str, round_: str, times: int, outer: str) -> None:
    keys = stack(inner, round_, times, outer)
    found = find_rounds(keys)
    assert found is not None
    assert (found.start, found.period, found.times) == (len(inner), len(round_), times)
    assert found.end == len(keys) - len(outer)


def test_a_round_that_was_left_in_its_middle() -> None:
    """The innermost round ends where the stack ends, wherever that is."""
    found = find_rounds([*"c", *"abc" * 100, *"xyz"])
    assert found == Rounds(0, 3, 100)


@pytest.mark.parametrize("keys", [
    [], ["a"], ["a", "a"], ["a"] * 99, list(range(5000)), ["a"] * 120 + list(range(1000)),
    [*range(65), *"ab" * 20], list(range(64)) * 2,
], ids=["empty", "one", "two", "short", "no repetition", "less than half of it", "short and far in", "two rounds"])
def test_what_is_no_recursion(keys: Sequence[object]) -> None:
    assert find_rounds(keys) is None


def test_three_rounds_are_the_least() -> None:
    keys = list(range(60)) * 3
    assert find_rounds(keys) == Rounds(0, 60, 3)
    assert find_rounds(keys[:150]) is None


def test_rounds_are_bounded() -> None:
    assert find_rounds(list(range(64)) * 10) == Rounds(0, 64, 10)
    assert find_rounds(list(range(65)) * 10) is None
    assert find_rounds([*range(1000, 1064), *"a" * 500]) is None


def naive(keys: Sequence[object]) -> Rounds | None:
    """What the module's description says, without any haste."""
    best: Rounds | None = None
    for start in range(min(64, len(keys))):
        for period in range(1, min(64, (len(keys) - start) // 2) + 1):
            end = start + period
            while end < len(keys) and keys[end] == keys[end - period]:
                end += 1
            found = Rounds(start, period, (end - start) // period)
            if found.times > 1 and (best is None or found.period * found.times > best.period * best.times):
                best = found
        if best is not None and best.period * best.times * 2 > len(keys):
            break
    if best is None or best.times < 3 or best.period * best.times < max(100, len(keys) // 3):
        return None
    return best


@pytest.mark.parametrize("seed", range(60))
def test_as_a_slow_search_has_it(seed: int) -> None:
    chooser = random.Random(seed)
    round_ = [chooser.randrange(3) for _ in range(chooser.randrange(1, 9))]
    keys = [chooser.randrange(3) for _ in range(chooser.randrange(80))] + round_ * chooser.randrange(1, 120)
    keys += [chooser.randrange(3) for _ in range(chooser.randrange(100))]
    assert find_rounds(keys) == naive(keys)


@pytest.mark.parametrize("keys", [
    ["a"] * 9_900 + list(range(10_100)), list("ab" * 10_000), [*("a" * 9_999 + "b"), *("a" * 9_999 + "b")],
    list(range(20_000)),
], ids=["just less than half", "two", "almost all the same", "none"])
def test_time_is_bounded(keys: Sequence[object]) -> None:
    start = time.process_time()
    find_rounds(keys)
    assert time.process_time() - start < 2


def test_a_folded_stack_has_all_frames() -> None:
    """A round is shown once; frames that differ only in their names are at the same place."""
    looped = [Part((PyFrame("walk", "walk", "/app/tree.py", 17),)), Part((NativeFrame("repr", "libpython", 0x1000),))]
    outer = [Part((NativeFrame("main", "python", pc),)) for pc in (1, 2)]
    parts, rounds = fold([*looped * 300, *outer])
    assert rounds == Rounds(0, 2, 300)
    assert [part.text for part in parts] == [None, None, "the same 2 entries 299 times more", None, None]
    assert sum(len(part.frames) for part in parts) == 602
    assert fold(outer) == (tuple(outer), None)


def test_stack_that_is_used_up_may_be_short() -> None:
    keys = [*"c", *"ab" * 15, *"xyz"]
    assert find_rounds(keys) is None
    assert find_rounds(keys, SMALL) == Rounds(1, 2, 15)
