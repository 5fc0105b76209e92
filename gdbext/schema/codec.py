"""Descriptions of JSON values that work both ways: each reads a value from a document and writes it to one.

Reading checks everything. A value that is not as described raises `BadDocument` with its path, and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, get_args

from gdbext.errors import BadDocument
from gdbext.record import record

_REQUIRED: Final = object()
_ADDRESS = re.compile(r"0x[0-9a-f]{1,16}")
#: No number of a report is larger: addresses and counts have 64 bits.
_TOO_LARGE = 1 << 64


def _unchanged(value: Any) -> Any:
    return value


@record
class Codes:
    """The member with the codes of the reasons whose sentences another member contains."""

    #: its name, where ``{}`` stands for the name of the other member
    name: str
    write: Callable[[Any], object]
    #: makes the reasons of the sentences and this member's value, None if it is missing
    join: Callable[[Any, object], Any]


@record
class Codec:
    """How a value of the model is read from a JSON value, and written as one."""

    read: Callable[[Any], Any]
    #: for a value that is not None, which is null in each document
    write: Callable[[Any], Any] = _unchanged
    #: whether the member is only written, since others contain the same
    derived: bool = False
    #: whether `write` takes the whole record instead of one field
    writes_record: bool = False
    #: the field that the member stands for, if it has another name
    field: str | None = None
    #: the field's value where a document lacks the member
    default: object = _REQUIRED
    #: whether a field that is written as null has no member instead
    omitted: bool = False
    #: the second member that reasons have
    codes: Codes | None = None


# -- members ---------------------------------------------------------------------------------------------------------


def optional(codec: Codec, default: object = None) -> Codec:
    """A member that is always written, but missing in documents of older versions."""
    return replace(codec, default=default)


def or_absent(codec: Codec, default: object = None) -> Codec:
    """A member that is not written as null; a document without it has the `default`."""
    return replace(codec, default=default, omitted=True)


def field(name: str, codec: Codec) -> Codec:
    """A member whose field has another name."""
    return replace(codec, field=name)


def derived(write: Callable[[Any], object]) -> Codec:
    """A member that repeats what others say; `write` makes it from the record."""
    return Codec(_unchanged, write, derived=True, writes_record=True)


def shape(make: Callable[..., Any], **members: Codec) -> Codec:
    """An object with these members, for a record that `make` makes from its fields. Other members are ignored."""
    readers: list[tuple[str, str, Codec, str]] = []
    writers: list[tuple[str, str | None, Callable[[Any], object]]] = []
    omitted: list[str] = []
    for name, codec in members.items():
        attribute, codes = codec.field or name, codec.codes
        names = [name, codes.name.format(name)] if codes else [name]
        writers.append((name, None if codec.writes_record else attribute, codec.write))
        if codes:
            writers.append((names[1], attribute, codes.write))
        if codec.omitted:
            omitted += names
        if not codec.derived:
            readers.append((name, attribute, codec, names[-1]))

    def read(value: object) -> Any:
        if not isinstance(value, dict):
            raise _unexpected("an object", value)
        fields = {}
        try:
            for name, attribute, codec, name_of_codes in readers:
                if name not in value:
                    if codec.default is _REQUIRED:
                        raise BadDocument("it is missing")
                    fields[attribute] = codec.default
                elif codec.codes is None:
                    fields[attribute] = codec.read(value[name])
                else:
                    fields[attribute] = codec.codes.join(codec.read(value[name]), value.get(name_of_codes))
        except BadDocument as error:
            raise BadDocument(error.what, f".{name}{error.path}") from None
        return make(**fields)

    def write(value: object) -> dict[str, Any]:
        made = {}
        for name, attribute, write_member in writers:
            part = value if attribute is None else getattr(value, attribute)
            made[name] = part if part is None or write_member is _unchanged else write_member(part)
        for name in omitted:
            if made[name] is None:
                del made[name]
        return made

    return Codec(read, write)


# -- values ----------------------------------------------------------------------------------------------------------


def _unexpected(expected: str, value: object) -> BadDocument:
    # the value itself may be long, or contain control characters
    return BadDocument(f"expected {expected}, found a value of type {type(value).__name__}")


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise _unexpected("a string", value)
    return value


def _integer(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise _unexpected("an integer", value)
    if abs(value) >= _TOO_LARGE:
        raise BadDocument("expected an integer of at most 64 bits")
    return value


def _seconds(value: object) -> float:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise _unexpected("a number", value)
    if not abs(value) < _TOO_LARGE:  # NaN, too
        raise BadDocument("expected a finite number")
    return value


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise _unexpected("true or false", value)
    return value


def _address(value: object) -> int:
    text = _text(value)
    if _ADDRESS.fullmatch(text) is None:
        raise BadDocument('expected an address such as "0x7f30"')
    return int(text, 16)


def one_of(literal: object) -> Codec:
    """A string that is one of those of a Literal type."""
    values = get_args(literal)

    def read(value: object) -> str:
        if value not in values:
            raise BadDocument("expected " + " or ".join(f'"{each}"' for each in values))
        return _text(value)

    return Codec(read)


def or_none(codec: Codec) -> Codec:
    """A value or null."""
    read = codec.read
    return replace(codec, read=lambda value: None if value is None else read(value))


def each(codec: Codec) -> Codec:
    """A list of values of one kind; a tuple in the model."""
    read_item, write_item = codec.read, codec.write

    def read(value: object) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise _unexpected("a list", value)
        made: list[Any] = []
        try:
            for item in value:
                made.append(read_item(item))
        except BadDocument as error:
            raise BadDocument(error.what, f"[{len(made)}]{error.path}") from None
        return tuple(made)

    return Codec(read, list if write_item is _unchanged else lambda values: [write_item(value) for value in values])


def each_member(codec: Codec) -> Codec:
    """An object whose members have names that are data."""
    read_member, write_member = codec.read, codec.write

    def read(value: object) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise _unexpected("an object", value)
        made = {}
        try:
            for name, member in value.items():
                made[_text(name)] = read_member(member)
        except BadDocument as error:
            raise BadDocument(error.what, f"[{ascii(name)}]{error.path}") from None
        return made

    return Codec(read, lambda values: {name: write_member(value) for name, value in values.items()})


TEXT = Codec(_text)
NUMBER = Codec(_integer)
SECONDS = Codec(_seconds)
FLAG = Codec(_flag)
ADDRESS = Codec(_address, hex)
TEXT_OR_NONE = or_none(TEXT)
NUMBER_OR_NONE = or_none(NUMBER)
ADDRESS_OR_NONE = or_none(ADDRESS)
TEXTS = each(TEXT)
NUMBERS = each(NUMBER)
ADDRESSES = each(ADDRESS)
