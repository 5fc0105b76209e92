"""Reads single instructions of arm64, each a word of 32 bits.

Source: Arm ARM (DDI 0487) C4.1, A64 instruction set encoding.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from gdbext.inferior.cache import read_u64
from gdbext.inferior.protocol import Memory

#: Landing pads of branches: bti, bti c, bti j, bti jc; paciasp, pacibsp.
LANDING = frozenset((0xD503241F, 0xD503245F, 0xD503249F, 0xD50324DF, 0xD503233F, 0xD503237F))
RETURNS = frozenset((0xD65F0BFF, 0xD65F0FFF))  # retaa, retab
_SIZE = 4


def words_of(code: bytes) -> Iterator[int]:
    """The instructions of code."""
    for word, in struct.iter_unpack("<I", code[:len(code) & -_SIZE]):
        yield word


def signed(value: int, bits: int) -> int:
    """A number of some bits as a signed one."""
    return value - (1 << bits) if value >> bits - 1 & 1 else value


def branch(word: int, at: int) -> tuple[int, bool] | None:
    """(target, whether it is a call) of a direct branch; None for other instructions."""
    if word & 0x7C000000 == 0x14000000:  # b, bl
        return at + _SIZE * signed(word & 0x3FFFFFF, 26), bool(word >> 31)
    if word & 0xFF000000 == 0x54000000 or word & 0x7E000000 == 0x34000000:  # b.cond, cbz, cbnz
        return at + _SIZE * signed(word >> 5 & 0x7FFFF, 19), False
    if word & 0x7E000000 == 0x36000000:  # tbz, tbnz
        return at + _SIZE * signed(word >> 5 & 0x3FFF, 14), False
    return None


def is_call(word: int) -> bool:
    """Whether an instruction is a call: bl, blr, or blr with authentication (blraa, blrab, blraaz, blrabz)."""
    return word & 0xFC000000 == 0x94000000 or word & 0xFFFFFC1F == 0xD63F0000 or word & 0xFEFFF800 == 0xD63F0800


def is_jump_to_register(word: int) -> bool:
    """Whether an instruction is br, or br with authentication."""
    return word & 0xFFFFFC1F == 0xD61F0000 or word & 0xFEFFF800 == 0xD61F0800


def is_return(word: int) -> bool:
    """Whether an instruction returns to a caller."""
    return word & 0xFFFFFC1F == 0xD65F0000 or word in RETURNS


def page_address(word: int, at: int) -> tuple[int, int] | None:
    """(register, address) of adr and adrp; None for other instructions."""
    if word & 0x1F000000 != 0x10000000:
        return None
    distance = signed((word >> 5 & 0x7FFFF) << 2 | word >> 29 & 3, 21)
    return word & 31, (at & ~0xFFF) + (distance << 12) if word >> 31 else at + distance


def addition(word: int) -> tuple[int, int, int] | None:
    """(target, source, constant) of the addition of a constant to a whole register; None for other instructions."""
    if word & 0xFF800000 != 0x91000000:
        return None
    return word & 31, word >> 5 & 31, (word >> 10 & 0xFFF) << (12 if word >> 22 & 1 else 0)


def load(word: int) -> tuple[int, int, int, int] | None:
    """(target, base, offset, size in bytes) of ldr of a register from a base plus a constant; None for others."""
    if word & 0xBFC00000 != 0xB9400000:
        return None
    size = 8 if word >> 30 & 1 else 4
    return word & 31, word >> 5 & 31, (word >> 10 & 0xFFF) * size, size


def copy(word: int) -> tuple[int, int] | None:
    """(target, source) of a move between whole registers; None for other instructions."""
    return (word & 31, word >> 16 & 31) if word & 0xFFE0FFE0 == 0xAA0003E0 else None


def constant(word: int) -> tuple[int, int] | None:
    """(target, value) of movz; None for other instructions."""
    if word & 0x7F800000 != 0x52800000:
        return None
    return word & 31, (word >> 5 & 0xFFFF) << 16 * (word >> 21 & 3)


class Constants:
    """The registers whose values straight code makes of constants and of words that it loads from constant addresses.

    `slots` has the registers with a word that was loaded from a constant address: register -> address.
    """

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self.values: dict[int, int] = {}
        self.slots: dict[int, int] = {}

    def step(self, word: int, at: int) -> int | None:
        """Run one instruction; return the address of the word that it loads if that is known, else None."""
        made, slot = self._made(word, at)
        if is_call(word):
            for register in range(19):
                self._lose(register)
            return None
        # instructions that write no register lose one too: that is only less knowledge
        self._lose(word & 31)
        if made is not None:
            self.values[word & 31] = made
        if slot is not None:
            self.slots[word & 31] = slot
        return slot

    def _made(self, word: int, at: int) -> tuple[int | None, int | None]:
        found = page_address(word, at) or constant(word)
        if found is not None:
            return found[1], None
        added = addition(word)
        if added is not None:
            base = self.values.get(added[1])
            return (base + added[2] if base is not None and added[1] not in self.slots else None), None
        loaded = load(word)
        if loaded is not None:
            base = self.values.get(loaded[1])
            return None, base + loaded[2] if base is not None and loaded[3] == 8 else None
        copied = copy(word)
        if copied is not None:
            return self.values.get(copied[1]), self.slots.get(copied[1])
        return None, None

    def value(self, register: int) -> int | None:
        """A register's value, read from its slot if it was loaded; None if unknown.

        :raises MemoryUnreadable: the slot is not readable.
        """
        slot = self.slots.get(register)
        return read_u64(self._memory, slot) if slot is not None else self.values.get(register)

    def _lose(self, register: int) -> None:
        self.values.pop(register, None)
        self.slots.pop(register, None)
