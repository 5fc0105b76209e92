"""The sentence for a known bug that a report looks like."""

from __future__ import annotations

from gdbext.model.known import KnownBug
from gdbext.narrate.words import Foreign, Words


def known_bug(bug: KnownBug) -> Words:
    """What the bug is, in which version it is fixed, how many facts agree, and what to do."""
    # a saved report may contain anything
    package = Foreign(bug.package, 60)
    installed: Words = (" (this is ", package, " ", Foreign(bug.version, 40), ")") if bug.version is not None else ()
    workaround: Words = ("; or ", Foreign(bug.workaround, 200)) if bug.workaround else ()
    return ("Looks like " if bug.agree == bug.facts else "Perhaps ", Foreign(bug.id, 100), " (",
            Foreign(bug.title, 200), "), fixed in ", package, " ", Foreign(bug.fixed, 40),
            f": {bug.agree} of {bug.facts} facts agree. Upgrade ", package, *installed, *workaround, ".")
