"""Structure layouts as data: the place of each member in a C structure of one particular build.

A `Layouts` is one generated table (`layout/tables/*.json`), or is made at run time from the target's own evidence.
Decoders ask it for a `Reader`, which turns one read of memory into a tuple of integers.
"""

from __future__ import annotations

import json
import operator
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Callable

from gdbext.errors import CorruptStructure, UnknownLayout

if TYPE_CHECKING:
    from gdbext.inferior.protocol import Memory

#: One past the largest structure that a reader fetches in one go, in bytes. `_PyRuntimeState` is larger than
#: this, but no decoder reads all of it.
MAX_STRUCT = 1 << 20

_CODES = {(1, False): "B", (2, False): "H", (4, False): "I", (8, False): "Q",
          (1, True): "b", (2, True): "h", (4, True): "i", (8, True): "q"}


@dataclass(frozen=True)
class Field:
    """A member: byte `offset` from the start of the structure and `size` in bytes.

    `signed` holds for integers. A bit field has `bits` = (lowest bit, width) within those bytes.
    """

    offset: int
    size: int
    signed: bool = False
    bits: tuple[int, int] | None = None

    def extract(self, data: bytes) -> int:
        """The member's value in the bytes of its whole structure."""
        value = int.from_bytes(data[self.offset:self.offset + self.size], "little",
                               signed=self.signed and self.bits is None)
        if self.bits is not None:
            low, width = self.bits
            value = value >> low & ((1 << width) - 1)
        return value


Reader = Callable[["Memory", int], tuple[int, ...]]


@dataclass(frozen=True)
class Struct:
    """One C structure of one build: its size in bytes and those of its members that decoders ask for."""

    name: str
    size: int
    fields: Mapping[str, Field]
    _readers: dict[tuple[str, ...], Reader] = field(default_factory=dict, compare=False, repr=False)

    def __contains__(self, member: str) -> bool:
        return member in self.fields

    def __getitem__(self, member: str) -> Field:
        try:
            return self.fields[member]
        except KeyError:
            raise UnknownLayout(f"{self.name} has no member {member} in this layout") from None

    def offset(self, member: str) -> int:
        """Byte offset of a member."""
        return self[member].offset

    def reader(self, *members: str) -> Reader:
        """A function that reads the named members of a structure with one memory access.

        :return: ``read(memory, address)`` gives one int for each member, in the order asked for.
        :raises UnknownLayout: (now) a member is not in this layout.
        :raises MemoryUnreadable: (when called) the bytes are not mapped, or not in the core.
        """
        made = self._readers.get(members)
        if made is None:
            made = self._readers[members] = self._compile([self[name] for name in members])
        return made

    def optional(self, *members: str) -> Callable[[Memory, int], tuple[int | None, ...]]:
        """Like `reader`, but gives None for each member that this layout does not have."""
        present = [name for name in members if name in self.fields]
        if not present:
            return lambda memory, address: (None,) * len(members)
        read = self.reader(*present)
        places = [present.index(name) if name in self.fields else None for name in members]

        def read_present(memory: Memory, address: int) -> tuple[int | None, ...]:
            values = read(memory, address)
            return tuple([None if place is None else values[place] for place in places])

        return read_present

    def packed(self, *members: str) -> tuple[int, struct.Struct, tuple[int, ...]]:
        """The quickest way to read the named members, for the few hot paths.

        :return: byte offset of the first member, a format that unpacks them in the order of memory, and the place of
            each member in its result.
        :raises UnknownLayout: a member is not in this layout, is a bit field, or overlaps another.
        """
        wanted = [self[name] for name in members]
        made = self._format(wanted)
        if made is None:
            raise UnknownLayout(f"members of {self.name} overlap")
        return made

    @staticmethod
    def _format(wanted: list[Field]) -> tuple[int, struct.Struct, tuple[int, ...]] | None:
        ordered = sorted(range(len(wanted)), key=lambda i: wanted[i].offset)
        start = at = wanted[ordered[0]].offset
        code = "<"
        for index in ordered:
            item = wanted[index]
            letter = _CODES.get((item.size, item.signed))
            if item.bits is not None or letter is None or item.offset < at:
                return None
            code += f"{item.offset - at}x{letter}" if item.offset > at else letter
            at = item.offset + item.size
        return start, struct.Struct(code), tuple(ordered.index(i) for i in range(len(wanted)))

    def _compile(self, wanted: list[Field]) -> Reader:
        start = min(item.offset for item in wanted)
        size = max(item.offset + item.size for item in wanted) - start
        if size > MAX_STRUCT:
            raise CorruptStructure(0, f"{self.name} is too large to read in one go")
        made = self._format(wanted)
        if made is None:  # bit fields, or members that overlap
            moved = [replace(item, offset=item.offset - start) for item in wanted]

            def read(memory: Memory, address: int) -> tuple[int, ...]:
                data = memory.read(address + start, size)
                return tuple([item.extract(data) for item in moved])

            return read
        _, form, places = made
        unpack = form.unpack
        if places == tuple(range(len(wanted))):
            return lambda memory, address: unpack(memory.read(address + start, size))
        pick = operator.itemgetter(*places)
        return lambda memory, address: pick(unpack(memory.read(address + start, size)))

@dataclass(frozen=True)
class Layouts:
    """All structures of one build of one runtime.

    `runtime` is ``cpython`` or ``glibc``; `version` a full version such as ``3.11.7``; `build` is ``default`` or
    ``free-threaded``; `source` is the origin of the numbers (``table``, ``debug-offsets`` or ``dwarf``).
    """

    runtime: str
    version: str
    build: str
    machine: str
    structs: Mapping[str, Struct]
    source: str = "table"
    producer: str = ""
    build_id: str = ""

    def __contains__(self, name: str) -> bool:
        return name in self.structs

    def __getitem__(self, name: str) -> Struct:
        try:
            return self.structs[name]
        except KeyError:
            raise UnknownLayout(f"{self.runtime} {self.version} has no {name}") from None

    def has(self, name: str, member: str) -> bool:
        """Whether the structure exists in this build and has the member."""
        return name in self.structs and member in self.structs[name]

    @property
    def version_tuple(self) -> tuple[int, ...]:
        """``(3, 11, 7)`` for version 3.11.7."""
        return tuple(int(part) for part in self.version.split(".") if part.isdigit())

    def replaced(self, source: str, changes: Mapping[str, Mapping[str, Field]], sizes: Mapping[str, int]) -> Layouts:
        """A copy in which the given members have other places, as the target's own evidence says."""
        structs = dict(self.structs)
        for name, members in changes.items():
            old = structs.get(name, Struct(name, 0, {}))
            structs[name] = Struct(name, sizes.get(name, old.size), {**old.fields, **members})
        return replace(self, structs=structs, source=source)


def parse_table(text: str) -> Layouts:
    """Read one generated table.

    A member is ``[offset, size]``, ``[offset, size, "signed"]`` or ``[offset, size, low_bit, width]``.
    """
    data: dict[str, Any] = json.loads(text)
    structs = {}
    for name, body in data["structs"].items():
        fields = {}
        for member, numbers in body["members"].items():
            if len(numbers) == 4:
                fields[member] = Field(numbers[0], numbers[1], False, (numbers[2], numbers[3]))
            else:
                fields[member] = Field(numbers[0], numbers[1], len(numbers) == 3)
        structs[name] = Struct(name, body["size"], fields)
    return Layouts(data["runtime"], data["version"], data["build"], data["machine"], structs, "table",
                   data.get("producer", ""), data.get("build_id", ""))
