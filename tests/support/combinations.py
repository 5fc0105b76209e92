"""How many combinations the tests run: a part at each commit, all of them where GDBEXT_LONG is set."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

#: `scripts/precision --long` and `.ci/run --all` set it.
LONG = bool(os.environ.get("GDBEXT_LONG"))


def covering(names: Sequence[str], variants: Sequence[str], targets: Sequence[str]) -> list[tuple[str, str, str]]:
    """Choose cases in which each name has every variant once, and the targets take turns.

    Each pair of a variant and a target occurs with about one name in `len(targets)`. A name has every target if there
    are as many variants as targets or more.
    """
    # a version and its stripped copy have different targets, also if an even number of names is between them
    return [(name, variant, targets[(row + column + name.endswith("-stripped")) % len(targets)])
            for row, name in enumerate(names) for column, variant in enumerate(variants)]


def seeds(number: int) -> range:
    """Seeds of random cases: that many in a long run, else a third of them."""
    return range(number if LONG else (number + 2) // 3)


def part(ways: Sequence[T], turn: int) -> Sequence[T]:
    """All the ways in a long run; else the first, third and so on, and in the next turn the others."""
    return ways if LONG else ways[turn % 2::2]


def cases(names: Sequence[str], variants: Sequence[str], targets: Sequence[str]) -> list[tuple[str, str, str]]:
    """The whole product in a long run, else a covering part of it."""
    return [*itertools.product(names, variants, targets)] if LONG else covering(names, variants, targets)
