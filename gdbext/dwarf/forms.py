"""Attributes of debugging information entries: abbreviations, and how each form is stored.

Source: DWARF 5 sections 7.5.3 to 7.5.6; GNU extensions: GCC 12 include/dwarf2.def.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Union

from gdbext.elf.dwarf_cursor import DwarfCursor
from gdbext.errors import CorruptStructure

# Forms whose values mean something else than a number (DW_FORM_*).
ADDR, STRING, STRP, LINE_STRP = 0x01, 0x08, 0x0E, 0x1F
REF_ADDR, SEC_OFFSET, REF_SIG8, IMPLICIT_CONST, INDIRECT = 0x10, 0x17, 0x20, 0x21, 0x16
SUP_STRINGS, SUP_REFERENCES = (0x1D, 0x1F21), (0x1C, 0x24, 0x1F20)
UNIT_REFERENCES = (0x11, 0x12, 0x13, 0x14, 0x15)
STRING_INDICES, ADDRESS_INDICES = (0x1A, 0x25, 0x26, 0x27, 0x28, 0x1F02), (0x1B, 0x29, 0x2A, 0x2B, 0x2C, 0x1F01)
CONSTANTS, RNGLISTX = (0x0B, 0x05, 0x06, 0x07, 0x0F, 0x0D, IMPLICIT_CONST), 0x23

#: Sizes of forms in bytes; negative: of an offset (4 or 8).
_OFFSET = -1
_FIXED = {ADDR: 8, 0x0B: 1, 0x05: 2, 0x06: 4, 0x07: 8, 0x1E: 16, 0x0C: 1, 0x19: 0, IMPLICIT_CONST: 0, 0x11: 1, 0x12: 2,
          0x13: 4, 0x14: 8, REF_SIG8: 8, REF_ADDR: _OFFSET, SEC_OFFSET: _OFFSET, STRP: _OFFSET, LINE_STRP: _OFFSET,
          0x1D: _OFFSET, 0x1C: 4, 0x24: 8, 0x1F20: _OFFSET, 0x1F21: _OFFSET, 0x25: 1, 0x26: 2, 0x27: 3, 0x28: 4,
          0x29: 1, 0x2A: 2, 0x2B: 3, 0x2C: 4}
_LEB = (0x0F, 0x0D, 0x15, 0x1A, 0x1B, 0x22, RNGLISTX, 0x1F01, 0x1F02)
_SIGNED = 0x0D
#: Sizes of the lengths of blocks, 0 for LEB128.
_BLOCKS = {0x0A: 1, 0x03: 2, 0x04: 4, 0x09: 0, 0x18: 0}
#: Most abbreviations of a table, and most attributes of one.
_MAX_ABBREVIATIONS, _MAX_ATTRIBUTES = 1 << 16, 200
_SIBLING = 0x01

#: What a form stores: a number, the bytes of a block, or a string.
Value = Union[int, bytes]


class Abbreviation(NamedTuple):
    """The shape of entries.

    `attributes` are (attribute, form, implicit constant). `steps` skip the attributes of an entry: each is a number of
    bytes, or a code for a form whose size depends on the value. `to_sibling` are the steps to the attribute with the
    place of the next entry on the same level, and `sibling_form` is its form; 0 without.
    """

    tag: int
    has_children: bool
    attributes: tuple[tuple[int, int, int], ...]
    steps: tuple[int, ...]
    to_sibling: tuple[int, ...]
    sibling_form: int


#: Codes in `Abbreviation.steps`; a block has the last one less its form.
_SKIP_LEB, _SKIP_STRING, _SKIP_BLOCK = -1, -2, -3


def fixed_size(form: int, version: int, offset_size: int) -> int | None:
    """The size of a form in bytes; None if it depends on the value."""
    size = _FIXED.get(form)
    if form == REF_ADDR and version <= 2:
        return 8
    return offset_size if size == _OFFSET else size


def read_abbreviations(data: bytes, version: int, offset_size: int) -> dict[int, Abbreviation]:
    """Read a table of abbreviations, by their codes; `data` begins with the table.

    :raises CorruptStructure: it has no end, or a form is not known.
    """
    cursor, found = DwarfCursor(data, 0), dict[int, Abbreviation]()
    for _ in range(_MAX_ABBREVIATIONS):
        code = cursor.uleb()
        if not code:
            return found
        tag, has_children = cursor.uleb(), bool(cursor.unsigned(1))
        attributes = tuple(_iter_attributes(cursor))
        kinds = [form for _, form, _ in attributes]
        sibling = next((index for index, (name, form, _) in enumerate(attributes)
                        if has_children and name == _SIBLING and form in UNIT_REFERENCES), None)
        found[code] = Abbreviation(tag, has_children, attributes, _steps(kinds, version, offset_size),
                                   _steps(kinds[:sibling], version, offset_size),
                                   kinds[sibling] if sibling is not None else 0)
    raise CorruptStructure(cursor.at, "too many abbreviations")


def _steps(kinds: Sequence[int], version: int, offset_size: int) -> tuple[int, ...]:
    steps = [0]
    for form in kinds:
        size = fixed_size(form, version, offset_size)
        if size is not None and steps[-1] >= 0:
            steps[-1] += size
        elif size is not None:
            steps.append(size)
        elif form in _LEB:
            steps.append(_SKIP_LEB)
        elif form == STRING:
            steps.append(_SKIP_STRING)
        elif form in _BLOCKS:
            steps.append(_SKIP_BLOCK - form)
        else:
            raise CorruptStructure(0, f"unknown form {form:#x}")
    return tuple(steps)


def _iter_attributes(cursor: DwarfCursor) -> Iterator[tuple[int, int, int]]:
    for _ in range(_MAX_ATTRIBUTES):
        name, form = cursor.uleb(), cursor.uleb()
        constant = cursor.sleb() if form == IMPLICIT_CONST else 0
        if not name and not form:
            return
        yield name, form, constant
    raise CorruptStructure(cursor.at, "too many attributes")


def skip(data: bytes, at: int, steps: Sequence[int]) -> int:
    """Skip attributes that begin at an offset, by the steps of their abbreviation; return where they end.

    :raises IndexError: the data ends before.
    """
    for step in steps:
        if step >= 0:
            at += step
        elif step == _SKIP_LEB:
            while data[at] & 0x80:
                at += 1
            at += 1
        elif step == _SKIP_STRING:
            at = data.find(b"\0", at) + 1
            if not at:
                raise IndexError
        else:
            width = _BLOCKS[_SKIP_BLOCK - step]
            if width:
                at += width + int.from_bytes(data[at:at + width], "little")
            else:
                size = shift = 0
                while True:
                    byte = data[at]
                    at += 1
                    size |= (byte & 0x7F) << shift
                    shift += 7
                    if byte < 0x80:
                        break
                at += size
    return at


def read_value(cursor: DwarfCursor, form: int, constant: int, version: int, offset_size: int) -> Value:
    """Read the value of an attribute: a number, or the bytes of a block or string.

    :raises CorruptStructure: the data ends before, or the form is not known.
    """
    if form == IMPLICIT_CONST:
        return constant
    if form == 0x19:  # DW_FORM_flag_present
        return 1
    size = fixed_size(form, version, offset_size)
    if size is not None:
        return cursor.unsigned(size)
    if form in _LEB:
        return cursor.sleb() if form == _SIGNED else cursor.uleb()
    if form == STRING:
        end = cursor.data.find(b"\0", cursor.at)
        text = cursor.take(end - cursor.at)
        cursor.at += 1
        return text
    if form in _BLOCKS:
        width = _BLOCKS[form]
        return cursor.take(cursor.unsigned(width) if width else cursor.uleb())
    raise CorruptStructure(cursor.at, f"unknown form {form:#x}")
