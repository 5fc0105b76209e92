"""Why something is known or not known: a code with arguments. `gdbext.narrate.reasons` has the sentence for each code.

Programs compare codes; nobody parses the sentences.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Union

from gdbext.record import record

Argument = Union[int, str, None, "Reason", "tuple[int, ...]", "tuple[str, ...]", "tuple[Reason, ...]"]

#: A key of `_WORDINGS` in `gdbext.narrate.reasons`, or of the words of a library.
ReasonCode = str

#: A peer that has been sent data, and has sent none since.
UNANSWERED = "unanswered"
#: A descriptor of a named pipe, which any process may open.
NAMED_PIPE = "named-pipe"
#: A descriptor from which a server takes requests.
REQUESTS = "takes-requests"


@record
class Reason:
    """A code with its arguments, by name. An argument may contain text from the target, not yet escaped."""

    code: ReasonCode
    arguments: tuple[tuple[str, Argument], ...] = ()


def because(code: ReasonCode, **arguments: Argument) -> Reason:
    """A reason with its arguments as keywords."""
    return Reason(code, tuple(arguments.items()))


def joined(reasons: Sequence[Reason]) -> Reason | None:
    """Several reasons as one; None for none."""
    if len(reasons) > 1:
        return because("several", reasons=tuple(reasons))
    return reasons[0] if reasons else None


def parts(reason: Reason | None) -> tuple[Reason, ...]:
    """The reasons that `joined` was given."""
    if reason is None or reason.code != "several":
        return () if reason is None else (reason,)
    return tuple([part for _, found in reason.arguments if isinstance(found, tuple)
                  for part in found if isinstance(part, Reason)])


def ends_here(why: Reason) -> bool:
    """Whether only this process has the other end of what a reason describes: a descriptor, or all that one watches."""
    if why.code == "of-descriptor":
        return any(isinstance(end, Reason) and ends_here(end) for _, end in why.arguments)
    if why.code in ("watches", "in-accept-queue"):
        return any(name == "only_here" and only_here for name, only_here in why.arguments)
    return why.code in ("other-end-here", "served-here")


def is_alone(why: Reason | None) -> bool:
    """Whether a reason says that a lock, which processes may share, is in no other process."""
    return any(part.code == "in-no-other-process" for part in parts(why))


def owes_answer(why: Reason | None) -> bool:
    """Whether a reason of a wait says that the peer was sent data, and has sent none since."""
    return any(part.code == UNANSWERED for part in parts(why))


def find_reasons(argument: Argument, code: ReasonCode) -> Iterator[Reason]:
    """Iterate over the reasons with a code in an argument, at any depth."""
    if isinstance(argument, tuple):
        for part in argument:
            yield from find_reasons(part, code)
    elif isinstance(argument, Reason):
        if argument.code == code:
            yield argument
        for _, value in argument.arguments:
            yield from find_reasons(value, code)


def because_of(error: Exception, part: str | None = None) -> Reason:
    """The message of an exception; with `part`, one of those of ``part-unreadable``, what could not be read."""
    if part is None:
        return because("text", text=str(error))
    return because("part-unreadable", part=part, error=str(error))
