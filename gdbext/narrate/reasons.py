"""The sentence for each reason code of `gdbext.model.reasons`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Union

from gdbext.model.reasons import Reason, ReasonCode

#: A format string for `str.format`, or a function of the arguments where the words depend on them.
Wording = Union[str, Callable[..., str]]

_WORDINGS: Mapping[ReasonCode, Wording] = {
    "text": "{text}",
}


def explain(reason: Reason) -> str:
    """The sentence of a reason, without a capital and without a full stop. Text from the target is not escaped."""
    wording: Wording = _WORDINGS[reason.code]
    arguments: dict[str, Any] = dict(reason.arguments)
    return wording.format(**arguments) if isinstance(wording, str) else wording(**arguments)
