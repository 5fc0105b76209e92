"""Reasons in JSON: a member with the sentence, and a second member with the code and its arguments.

Only the sentence is used if the document is older than codes, or the code newer than this version.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, cast

from gdbext.model.reasons import Argument, Reason, because
from gdbext.narrate.reasons import explain
from gdbext.schema.codec import TEXT, TEXTS, Codec, Codes, or_none

#: How deep reasons may be within reasons.
_MAX_DEPTH = 8


def _write_code(reason: Reason) -> dict[str, Any]:
    return {"code": reason.code, "arguments": {name: _write_argument(value) for name, value in reason.arguments}}


def _write_argument(value: Argument) -> object:
    if isinstance(value, tuple):
        return [_write_argument(each) for each in value]
    return _write_code(value) if isinstance(value, Reason) else value


def _write_codes(reasons: Iterable[Reason]) -> list[dict[str, Any]]:
    return [_write_code(each) for each in reasons]


def _read_code(value: object, depth: int = 0) -> Reason | None:
    """A reason from its code and arguments; None for one that this version cannot explain."""
    code = value.get("code") if isinstance(value, dict) else None
    arguments = value.get("arguments") if isinstance(value, dict) else None
    if not isinstance(code, str) or not isinstance(arguments, dict) or depth > _MAX_DEPTH:
        return None
    try:
        reason = Reason(code,
                        tuple((name, _read_argument(each, depth)) for name, each in arguments.items()))
        explain(reason)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return None
    return reason


def _read_argument(value: object, depth: int) -> Argument:
    """:raises TypeError: no reason has such an argument."""
    if depth > _MAX_DEPTH:
        raise TypeError
    if isinstance(value, dict):
        reason = _read_code(value, depth + 1)
        if reason is not None:
            return reason
    if isinstance(value, list):
        return cast("Argument", tuple(_read_argument(each, depth + 1) for each in value))
    if value is None or isinstance(value, (int, str)) and not isinstance(value, bool):
        return value
    raise TypeError


def _read_codes(value: object) -> list[Reason | None]:
    return [_read_code(each) for each in value] if isinstance(value, list) else []


def _join(sentence: str | None, code: object) -> Reason | None:
    return None if sentence is None else _read_code(code) or because("text", text=sentence)


def _join_each(sentences: tuple[str, ...], value: object) -> tuple[Reason, ...]:
    codes = _read_codes(value)
    if len(codes) != len(sentences):
        codes = [None] * len(sentences)
    return tuple(code or because("text", text=sentence) for sentence, code in zip(sentences, codes))


def _join_text(text: str | None, value: object) -> tuple[Reason, ...]:
    if text is None:
        return ()
    codes = _read_codes(value)
    known = tuple(code for code in codes if code is not None)
    return known if known and len(known) == len(codes) else (because("text", text=text),)


#: A reason; its sentence is never null.
REASON = Codec(TEXT.read, explain, codes=Codes("{}_code", _write_code, _join))
REASON_OR_NONE = or_none(REASON)
#: A list of sentences.
REASONS = Codec(TEXTS.read, lambda reasons: [explain(each) for each in reasons],
                codes=Codes("{}_codes", _write_codes, _join_each))
#: The same, without members for an empty list.
NOTES = Codec(REASONS.read, lambda reasons: REASONS.write(reasons) or None, default=(), omitted=True,
              codes=Codes("note_codes", lambda reasons: _write_codes(reasons) or None, _join_each))


def joined_reasons(sentence: Codec, write: Callable[[Any], str | None]) -> Codec:
    """Several reasons in one text, which `write` makes from the record."""
    return Codec(sentence.read, write, writes_record=True, codes=Codes("{}_codes", _write_codes, _join_text))
