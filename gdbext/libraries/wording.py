"""Parts of sentences that have numbers or lists in them."""

from __future__ import annotations

from collections.abc import Sequence

#: How many items of a list are named.
MANY = 4


def listed(texts: Sequence[object], count: int | None = None) -> str:
    """List the first few texts, and how many more there are; `count` is the total if not all are given."""
    count = len(texts) if count is None else count
    named = [str(text) for text in texts]
    if count > MANY:
        return f"{', '.join(named[:MANY])} and {count - MANY} more"
    return " and ".join([part for part in (", ".join(named[:-1]), *named[-1:]) if part])


def have(count: int, noun: str = "thread") -> str:
    """``1 thread has``, ``2 threads have``."""
    return f"{count} {noun}{' has' if count == 1 else 's have'}"
