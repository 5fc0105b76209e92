"""Each reason code has a sentence, and arguments reach it."""

from __future__ import annotations

from typing import get_args

from gdbext.model.reasons import ReasonCode, because
from gdbext.narrate import reasons
from gdbext.narrate.reasons import explain


def test_every_code_has_a_wording() -> None:
    assert set(reasons._WORDINGS) == set(get_args(ReasonCode))


def test_text_is_shown_as_it_is() -> None:
    assert explain(because("text", text="a {brace}")) == "a {brace}"
