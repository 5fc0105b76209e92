"""Reasons in tests, which compare sentences."""

from __future__ import annotations

from gdbext.model.reasons import Reason, because
from gdbext.narrate.reasons import explain


def text(sentence: str) -> Reason:
    """A reason that has no code of its own."""
    return because("text", text=sentence)


def said(reason: Reason | None) -> str | None:
    """The sentence of a reason."""
    return None if reason is None else explain(reason)
