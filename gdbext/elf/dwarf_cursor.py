"""A cursor over the data of `.eh_frame` and `.gcc_except_table`: LEB128 numbers and encoded pointers.

Source: DWARF 5 section 7.6; Linux Standard Base 5.0 core, "DWARF Exception Header Encoding".
"""

from __future__ import annotations

from gdbext.errors import CorruptStructure

#: Sizes of pointers by the lower half of their DW_EH_PE encoding, None for LEB128.
_POINTER_SIZES = {0x00: 8, 0x01: None, 0x02: 2, 0x03: 4, 0x04: 8, 0x09: None, 0x0A: 2, 0x0B: 4, 0x0C: 8}
#: The encoding of a pointer that is left out, and the bit of one that is stored at the encoded address.
OMITTED, INDIRECT = 0xFF, 0x80


class DwarfCursor:
    """Reads `data`, which is at `address` in the target, from the place `at` on."""

    def __init__(self, data: bytes, address: int) -> None:
        self.data = data
        self.address = address
        self.at = 0

    def take(self, size: int) -> bytes:
        """The next bytes.

        :raises CorruptStructure: the data ends before.
        """
        piece = self.data[self.at:self.at + size]
        if len(piece) != size or size < 0:
            raise CorruptStructure(self.address + self.at, "unwind data ends early")
        self.at += size
        return piece

    def unsigned(self, size: int) -> int:
        """An unsigned number of some bytes."""
        end = self.at + size
        if size < 0 or end > len(self.data):
            raise CorruptStructure(self.address + self.at, "unwind data ends early")
        value = int.from_bytes(self.data[self.at:end], "little")
        self.at = end
        return value

    def signed(self, size: int) -> int:
        """A signed number of some bytes."""
        return int.from_bytes(self.take(size), "little", signed=True)

    def uleb(self) -> int:
        """An unsigned LEB128 number.

        :raises CorruptStructure: it has more than 64 bits.
        """
        byte = self.data[self.at] if self.at < len(self.data) else 0x80
        if byte < 0x80:  # nearly all
            self.at += 1
            return byte
        value = shift = 0
        while True:
            try:
                byte = self.data[self.at]
            except IndexError:
                raise CorruptStructure(self.address + self.at, "unwind data ends early") from None
            self.at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                return value
            if shift > 63:
                raise CorruptStructure(self.address + self.at, "a LEB128 number is too long")

    def sleb(self) -> int:
        """A signed LEB128 number."""
        start = self.at
        value = self.uleb()
        bits = 7 * (self.at - start)
        return value - (1 << bits) if value >> (bits - 1) & 1 else value

    def encoded(self, encoding: int, data_base: int) -> int:
        """A pointer in one of the DW_EH_PE encodings; the indirect bit is left to the caller.

        :param data_base: what a pointer relative to the data is relative to.
        :raises CorruptStructure: an encoding that is not known.
        """
        here = self.address + self.at
        form, relative = encoding & 0x0F, encoding & 0x70
        if form not in _POINTER_SIZES or relative not in (0x00, 0x10, 0x30):
            raise CorruptStructure(here, f"pointer encoding {encoding:#x}")
        size = _POINTER_SIZES[form]
        if size is None:
            value = self.sleb() if form & 0x08 else self.uleb()
        else:
            value = self.signed(size) if form & 0x08 else self.unsigned(size)
        return value + {0x00: 0, 0x10: here, 0x30: data_base}[relative] & 0xFFFFFFFFFFFFFFFF
