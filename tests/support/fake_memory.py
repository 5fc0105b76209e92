"""Fake memory of a target: byte ranges, and structures laid out by a layout table."""

from __future__ import annotations

import bisect
import random
import struct
from collections.abc import Mapping

from gdbext.errors import MemoryUnreadable
from gdbext.layout.table import Layouts


class FakeMemory:
    """A `Memory` of byte ranges; a read outside of them raises `MemoryUnreadable`.

    `reads` records each successful read as (address, size).
    """

    def __init__(self, ranges: Mapping[int, bytes] | None = None) -> None:
        self._ranges: dict[int, bytearray] = {}
        self._starts: list[int] = []
        self.reads: list[tuple[int, int]] = []
        for address, data in (ranges or {}).items():
            self.map(address, data)

    def map(self, address: int, data: bytes) -> None:
        """Add bytes, which replace overlapping ones; adjacent ranges are merged."""
        end = address + len(data)
        touched = {
            start: piece for start, piece in self._ranges.items() if start <= end and address <= start + len(piece)
        }
        low = min([address, *touched])
        high = max([end, *(start + len(piece) for start, piece in touched.items())])
        merged = bytearray(high - low)
        for start, piece in touched.items():
            merged[start - low:start - low + len(piece)] = piece
            del self._ranges[start]
        merged[address - low:end - low] = data
        self._ranges[low] = merged
        self._starts = sorted(self._ranges)

    def ensure(self, address: int, size: int) -> None:
        """Map zeros at unmapped addresses; mapped bytes stay."""
        data = bytearray(size)
        for start, piece in self._ranges.items():
            low, high = max(start, address), min(start + len(piece), address + size)
            if low < high:
                data[low - address:high - address] = piece[low - start:high - start]
        self.map(address, bytes(data))

    def _find(self, address: int, size: int) -> tuple[bytearray, int]:
        index = bisect.bisect_right(self._starts, address) - 1
        if index >= 0 and size >= 0:
            start = self._starts[index]
            piece = self._ranges[start]
            if address + size <= start + len(piece):
                return piece, address - start
        raise MemoryUnreadable(address, size)

    def read(self, address: int, size: int) -> bytes:
        """Read exactly `size` bytes."""
        piece, at = self._find(address, size)
        self.reads.append((address, size))
        return bytes(piece[at:at + size])

    def write(self, address: int, data: bytes) -> None:
        """Write to mapped bytes."""
        piece, at = self._find(address, len(data))
        piece[at:at + len(data)] = data

    def u32(self, address: int, *values: int) -> None:
        """Write words of 4 bytes; unmapped ones are mapped first."""
        self.ensure(address, 4 * len(values))
        self.write(address, struct.pack(f"<{len(values)}I", *[value & 0xFFFFFFFF for value in values]))

    def u64(self, address: int, *values: int) -> None:
        """Write words of 8 bytes; unmapped ones are mapped first."""
        self.ensure(address, 8 * len(values))
        self.write(address, struct.pack(f"<{len(values)}Q", *values))


class Builder:
    """Builds structures in a `FakeMemory` by a layout table.

    :param heap: the first address that `alloc` returns.
    """

    def __init__(self, memory: FakeMemory, layouts: Layouts, heap: int = 0x5555_0000_0000) -> None:
        self.memory = memory
        self.layouts = layouts
        self._next = heap

    def alloc(self, size: int) -> int:
        """Allocate zero bytes in whole blocks of 64, with an unmapped block behind them; returns the address."""
        address = self._next
        blocks = (size + 63) & ~63
        self._next = address + blocks + 64
        self.memory.map(address, bytes(blocks))
        return address

    def put(self, struct_name: str, address: int, /, **members: int) -> int:
        """Write members of a structure; its other bytes stay, or become zeros if they were unmapped.

        :return: the address.
        """
        known = self.layouts[struct_name]
        self.memory.ensure(address, known.size)
        for name, value in members.items():
            field = known[name]
            if field.bits is None:
                assert field.size in (1, 2, 4, 8), f"{struct_name}.{name} is not an integer"
                data = (value & ((1 << 8 * field.size) - 1)).to_bytes(field.size, "little")
            else:
                low, width = field.bits
                mask = ((1 << width) - 1) << low
                old = int.from_bytes(self.memory.read(address + field.offset, field.size), "little")
                assert 0 <= value < 1 << width, f"{struct_name}.{name} has {width} bits"
                data = (old & ~mask | value << low).to_bytes(field.size, "little")
            self.memory.write(address + field.offset, data)
        return address

    def new(self, struct_name: str, /, **members: int) -> int:
        """Allocate a structure; returns its address."""
        return self.put(struct_name, self.alloc(self.layouts[struct_name].size), **members)

    def cstring(self, text: bytes) -> int:
        """Allocate a C string; returns its address."""
        address = self.alloc(len(text) + 1)
        self.memory.write(address, text)
        return address

    def member(self, struct_name: str, address: int, name: str) -> int:
        """The address of a member."""
        return address + self.layouts[struct_name].offset(name)


def noise(size: int, seed: int) -> bytes:
    """Random bytes, which are the same for the same seed."""
    return random.Random(seed).getrandbits(8 * size).to_bytes(size, "little")


class NoiseMemory:
    """A `Memory` of random bytes, readable at every address; many of its words are small or point nearby.

    With the same seed an address has the same bytes.
    """

    def __init__(self, seed: int, pages: int = 16) -> None:
        chooser = random.Random(seed)
        words: list[int] = []
        for _ in range(512 * pages):
            kind = chooser.randrange(4)
            if kind == 0:
                words.append(chooser.getrandbits(64))
            elif kind == 1:
                words.append(chooser.randrange(8))
            elif kind == 2:
                words.append(chooser.randrange(512 * pages) * 8 + 0x10000)
            else:
                words.append(chooser.getrandbits(chooser.randrange(1, 40)))
        self._data = struct.pack(f"<{len(words)}Q", *words)
        self.bytes_read = 0

    def read(self, address: int, size: int) -> bytes:
        """Read exactly `size` bytes; only impossible requests fail."""
        if not 0 <= address <= address + size <= 1 << 64:
            raise MemoryUnreadable(address, size)
        self.bytes_read += size
        start = address % len(self._data)
        data = self._data[start:start + size]
        while len(data) < size:
            data += self._data[:size - len(data)]
        return data
