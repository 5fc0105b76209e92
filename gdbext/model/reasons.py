"""Why something is known or not known: a code with arguments. `gdbext.narrate.reasons` has the sentence for each code.

Programs compare codes; nobody parses the sentences.
"""

from __future__ import annotations

from typing import Literal, Union

from gdbext.model.crash_reasons import CrashCode
from gdbext.record import record

Argument = Union[int, str, None, "Reason", "tuple[int, ...]", "tuple[str, ...]", "tuple[Reason, ...]"]

#: Codes are grouped by the room that gives the reason.
ReasonCode = Literal[
    # any room: a sentence from outside, such as the message of an exception or of a newer version of gdbext
    "text",
]


@record
class Reason:
    """A code with its arguments, by name. An argument may contain text from the target, not yet escaped."""

    code: ReasonCode | CrashCode
    arguments: tuple[tuple[str, Argument], ...] = ()


def because(code: ReasonCode | CrashCode, **arguments: Argument) -> Reason:
    """A reason with its arguments as keywords."""
    return Reason(code, tuple(arguments.items()))
