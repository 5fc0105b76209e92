"""The sentence for each reason code of `gdbext.model.reasons`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Union, cast

from gdbext.model.reasons import Argument, Reason, ReasonCode
from gdbext.narrate.crash_reasons import WORDINGS as CRASH_WORDINGS

#: A format string for `str.format`, or a function of the arguments where the words depend on them.
Wording = Union[str, Callable[..., str]]

_WORDINGS: Mapping[ReasonCode, Wording] = {
    "text": "{text}",
}


def explain(reason: Reason) -> str:
    """The sentence of a reason, without a capital and without a full stop. Text from the target is not escaped."""
    wording = CRASH_WORDINGS.get(reason.code) or _WORDINGS[cast("ReasonCode", reason.code)]
    arguments: dict[str, Any] = {name: _worded(value) for name, value in reason.arguments}
    return wording.format(**arguments) if isinstance(wording, str) else wording(**arguments)


def _worded(value: Argument) -> Any:
    if isinstance(value, tuple):
        return tuple(_worded(each) for each in value)
    return explain(value) if isinstance(value, Reason) else value
