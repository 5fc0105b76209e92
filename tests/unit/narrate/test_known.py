"""The sentence for a known bug."""

from __future__ import annotations

from gdbext.model.known import KnownBug
from gdbext.narrate.known import known_bug
from gdbext.narrate.words import plain

BUG = KnownBug("a/b#1", "a lock stays locked", "https://example.org", "redis", "1.1", "1.3", 5, 5, "close the pool")


def test_all_facts_agree() -> None:
    assert plain(known_bug(BUG)) == (
        "Looks like a/b#1 (a lock stays locked), fixed in redis 1.3: 5 of 5 facts agree. Upgrade redis (this is redis "
        "1.1); or close the pool.")


def test_the_version_is_not_known() -> None:
    unknown = KnownBug("a/b#1", "a lock stays locked", "https://example.org", "redis", None, "1.3", 4, 5)
    assert plain(known_bug(unknown)) == (
        "Perhaps a/b#1 (a lock stays locked), fixed in redis 1.3: 4 of 5 facts agree. Upgrade redis.")
