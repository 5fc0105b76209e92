"""Structure layouts as data: the place of each member in the C structures of one build.

A `Layouts` is a generated table (`layout/tables/*.json`), or is made at run time from evidence in the target.
Decoders get a `Reader` from it, which turns one read of memory into a tuple of integers.
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

#: The largest structure that a reader fetches with one read, in bytes. `_PyRuntimeState` is larger, but no decoder
#: reads all of it.
MAX_STRUCT = 1 << 20

_CODES = {(1, False): "B", (2, False): "H", (4, False): "I", (8, False): "Q",
          (1, True): "b", (2, True): "h", (4, True): "i", (8, True): "q"}


@dataclass(frozen=True)
class Field:
    """A member: its byte `offset` in the structure and its `size` in bytes.

    `signed` applies to integers. A bit field has `bits` = (lowest bit, width) within those bytes.
    """

    offset: int
    size: int
    signed: bool = False
    bits: tuple[int, int] | None = None

    def extract(self, data: bytes) -> int:
        """Extract the member's value from the bytes of the structure."""
        value = int.from_bytes(data[self.offset:self.offset + self.size], "little",
                               signed=self.signed and self.bits is None)
        if self.bits is not None:
            low, width = self.bits
            value = value >> low & ((1 << width) - 1)
        return value


Reader = Callable[["Memory", int], tuple[int, ...]]


@dataclass(frozen=True)
class Struct:
    """A C structure of one build: its size in bytes, and the members that decoders use."""

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
        """The byte offset of a member."""
        return self[member].offset

    def reader(self, *members: str) -> Reader:
        """Make a function that reads members of a structure with one memory access.

        :return: ``read(memory, address)`` returns one int per member, in the order of the arguments.
        :raises UnknownLayout: (now) a member is not in this layout.
        :raises MemoryUnreadable: (when called) the bytes are not mapped, or not in the core.
        """
        made = self._readers.get(members)
        if made is None:
            made = self._readers[members] = self._compile([self[name] for name in members])
        return made

    def optional(self, *members: str) -> Callable[[Memory, int], tuple[int | None, ...]]:
        """Like `reader`, but the function returns None for each member that this layout lacks."""
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
        """The format of some members, for the few hot paths that unpack memory themselves.

        :return: the byte offset of the first member, a format that unpacks the members in memory order, and the index
            of each member in the result.
        :raises UnknownLayout: a member is not in this layout, is a bit field, or overlaps another.
        """
        made = self._format([self[name] for name in members])
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
    """All structures of one build of a runtime.

    `runtime` is ``cpython`` or ``glibc``; `version` is a full version such as ``3.11.7``; `build` is ``default`` or
    ``free-threaded``; `source` is the origin of the offsets (``table``, ``debug-offsets`` or ``dwarf``).
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
        """A copy with other places for some members, and other sizes for some structures."""
        structs = dict(self.structs)
        for name, members in changes.items():
            old = structs.get(name, Struct(name, 0, {}))
            structs[name] = Struct(name, sizes.get(name, old.size), {**old.fields, **members})
        return replace(self, structs=structs, source=source)


def parse_table(text: str) -> Layouts:
    """Parse a generated table.

    A member is ``[offset, size]``, ``[offset, size, "signed"]`` or ``[offset, size, low_bit, width]``.
    """
    data: dict[str, Any] = json.loads(text)
    structs = {}
    for name, body in data["structs"].items():
        fields = {member: Field(offset, size, len(more) == 1, tuple(more) if len(more) == 2 else None)
                  for member, (offset, size, *more) in body["members"].items()}
        structs[name] = Struct(name, body["size"], fields)
    return Layouts(data["runtime"], data["version"], data["build"], data["machine"], structs, "table",
                   data.get("producer", ""), data.get("build_id", ""))
