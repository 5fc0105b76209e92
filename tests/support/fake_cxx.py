"""C++ objects, types and exceptions in fake memory, laid out by the Itanium ABI."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Sequence

from gdbext.runtimes.libstdcxx import CxxException, find_exceptions
from tests.support.fake_memory import FakeMemory

IMAGE, IMAGE_SIZE = 0x7F00_0000_0000, 0x8000
HEAP = 0x5555_0000_0000
SI, VMI, CLASS, POINTER, FUNDAMENTAL = (
    f"N10__cxxabiv1{len(name) + 12}__{name}_type_infoE"
    for name in ("si_class", "vmi_class", "class", "pointer", "fundamental"))
GNU, LLVM = b"\0++CCUNG", b"\0++CGNLC"


def in_image(address: int) -> bool:
    return IMAGE <= address < IMAGE + IMAGE_SIZE


class Program:
    """An image with types and virtual tables, and a heap with objects."""

    def __init__(self) -> None:
        self.memory = FakeMemory({IMAGE: bytes(IMAGE_SIZE), HEAP: bytes(0x8000)})
        self._image, self._heap = IMAGE + 0x100, HEAP + 0x100
        self._kinds: dict[str, int] = {}
        for kind in (CLASS, SI, VMI, POINTER, FUNDAMENTAL):
            # the type of the class that describes types; its own description does not matter
            own = self.image(16)
            self.memory.u64(own, 0, self.text(kind))
            self._kinds[kind] = self.vtable(own)
        self.handler = self.image(16)

    def image(self, size: int) -> int:
        at = self._image
        self._image += (size + 15) & ~15
        assert self._image < IMAGE + IMAGE_SIZE
        return at

    def heap(self, size: int) -> int:
        at = self._heap
        self._heap += (size + 31) & ~15
        assert self._heap < HEAP + 0x8000
        return at

    def text(self, text: str) -> int:
        data = text.encode() + b"\0"
        at = self.image(len(data))
        self.memory.write(at, data)
        return at

    def vtable(self, type_info: int, top: int = 0, offsets: Sequence[int] = ()) -> int:
        """A virtual table, with the `offsets` of virtual bases before it; returns the address stored in objects."""
        at = self.image(8 * len(offsets) + 24) + 8 * len(offsets)
        self.memory.write(at - 8 * len(offsets), struct.pack(f"<{len(offsets)}q", *offsets))
        self.memory.write(at, struct.pack("<qQ", top, type_info))
        return at + 16

    def type(self, name: str, kind: str = CLASS, *rest: int) -> int:
        at = self.image(16 + 8 * len(rest))
        self.memory.u64(at, self._kinds[kind], self.text(name), *[word & (1 << 64) - 1 for word in rest])
        return at

    def many(self, name: str, *bases: tuple[int, int]) -> int:
        """A class with several bases: (type, offset and flags)."""
        return self.type(name, VMI, len(bases) << 32, *itertools.chain(*bases))

    def string(self, at: int, text: bytes) -> None:
        if len(text) < 16:
            self.memory.u64(at, at + 16, len(text))
            self.memory.write(at + 16, text + b"\0")
        else:
            data = self.heap(len(text) + 1)
            self.memory.write(data, text + b"\0")
            self.memory.u64(at, data, len(text), len(text))

    def shared_string(self, text: bytes) -> int:
        at = self.heap(len(text) + 25)
        self.memory.write(at, struct.pack("<QQi4x", len(text), len(text), 0) + text + b"\0")
        return at + 24

    def throw(self, type_info: int, words: Sequence[int] = (), *, library: bytes = GNU, references: int = 1,
              handlers: int = 1, following: int = 0, size: int = 0x60) -> int:
        """An exception in a block of glibc's malloc; returns the address of the thrown object."""
        block = self.heap(8 + 0x80 + size)
        block += 8 if block % 16 == 8 else 16
        thrown = block + 0x80
        self.memory.u64(block - 8, 0x80 + size + 16 | 1)
        header = thrown - 0x20
        if library == GNU:
            self.memory.u32(header - 0x60, references)
        else:
            self.memory.u64(header - 0x58, references)
        self.memory.u64(header - 0x50, type_info, 0, 0, self.handler, following)
        self.memory.u32(header - 0x28, handlers)
        self.memory.write(header, library)
        self.memory.u64(thrown, *words)
        return thrown

    def find(self, *words: int) -> list[CxxException]:
        return find_exceptions(self.memory, words, in_image)

    def what(self, thrown: int) -> tuple[str | None, str | None, str | None]:
        (found,) = self.find(thrown)
        assert found.address == thrown
        return found.text, found.evidence, found.why
