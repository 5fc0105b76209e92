"""How a statement is known."""

from __future__ import annotations

from typing import Final, Literal

#: How a statement is known; see docs/glossary.md. Ordered from strongest to weakest.
Evidence = Literal["recorded", "derived", "inferred"]
RECORDED: Final = "recorded"
DERIVED: Final = "derived"
INFERRED: Final = "inferred"
EVIDENCE: tuple[Evidence, ...] = (RECORDED, DERIVED, INFERRED)


def weakest(evidence: list[Evidence]) -> Evidence:
    """The weakest of several kinds of evidence; `RECORDED` for none."""
    return max(evidence, key=EVIDENCE.index, default=RECORDED)
