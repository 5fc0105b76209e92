"""PyTorch's flight recorder: the newest operations of all process groups, which gloo and NCCL note in a ring.

It is a C++ object behind a static variable of ``FlightRecorder<EventType>::get()``. Its layout depends on the release:
`layouts.json` has those that scripts/gen_torch_layouts.py has made from the headers of releases. That one counts
which memory confirms: sizes that are multiples, numbers that ascend, strings with an end. Since torch 2.11 each process
records 2,000 operations; 2.8 to 2.10 only with ``TORCH_FR_BUFFER_SIZE``.

Source: PyTorch 2.13 torch/csrc/distributed/c10d/FlightRecorder.hpp (FlightRecorder, Entry), c10/util/SmallVector.h;
libstdc++ (std::string, std::vector, std::map, std::tuple, which has its last element first).
"""

from __future__ import annotations

import functools
import json
import os
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from gdbext.errors import CorruptStructure, GdbextError
from gdbext.inferior.cache import CachedMemory
from gdbext.model.ranks import Group, Operation

#: The variable in libtorch_cpu.so, and in libtorch_cuda.so.
VARIABLES: Final = (
    "_ZZN4c10d14FlightRecorderIN3c105EventEE3getEvE8instance",
    "_ZZN4c10d14FlightRecorderIN3c104cuda9CUDAEventEE3getEvE8instance",
)
#: Most operations, and how many characters of a name, elements of a vector and nodes of a tree, are read.
_MOST_ENTRIES, _MOST_CHARACTERS, _MOST_ITEMS, _MOST_NODES = 4096, 64, 16, 1024
#: Most ranks of a group: a vector of numbers.
_MOST_RANKS = 1 << 20
_TRIPLE: Final = struct.Struct("<3Q")
_STRING: Final = struct.Struct("<2Q16s")
_SMALL_VECTOR: Final = struct.Struct("<QII")
# std::map: the colour, then parent, leftmost and rightmost of the header, and the number of nodes
_MAP_HEADER: Final = struct.Struct("<4Q")
_NODE = 32
#: A std::string of fewer characters has them in itself.
_INLINE = 16
#: The names of c10::ScalarType by number.
_TYPES: Final = ("uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex32", "complex64",
                 "complex128", "bool", "qint8", "quint8", "qint32", "bfloat16")
_LAYOUTS: Final = os.path.join(os.path.dirname(__file__), "layouts.json")

#: The offset of each member, and the sizes, by name.
Layout = Mapping[str, int]


@functools.lru_cache(maxsize=1)
def read_layouts() -> tuple[Layout, ...]:
    """The distinct layouts, newest first."""
    with open(_LAYOUTS, encoding="utf-8") as file:
        known = json.load(file)["layouts"]
    return tuple(each["offsets"] for each in known)


class _Work(NamedTuple):
    """Operations of a group: the oldest ones without an end, and the newest one that has ended."""

    pending: tuple[Operation, ...] = ()
    last: Operation | None = None


class Recorder:
    """A flight recorder.

    :param address: ``FlightRecorder<EventType> *``.
    :raises CorruptStructure: no known layout fits.
    """

    def __init__(self, memory: CachedMemory, address: int) -> None:
        self._memory = memory
        for self._layout in read_layouts():
            try:
                self._read(address)
            except GdbextError:
                continue
            return
        raise CorruptStructure(address, "no known layout of a flight recorder fits")

    def _read(self, address: int) -> None:
        layout, memory = self._layout, self._memory
        data = memory.read(address, layout["sizeof"])
        enabled = data[layout["enabled_"]]
        begin, end, limit = _TRIPLE.unpack_from(data, layout["entries_"])
        most, following, count = (_word(data, layout[name]) for name in ("max_entries_", "next_", "id_"))
        size = layout["Entry.sizeof"]
        length, rest = divmod(end - begin, size)
        if (enabled > 1 or begin % 8 or rest or not 0 <= length <= most or (limit - begin) % size or limit < end
                or following > most or count < length):
            raise CorruptStructure(address, "not a flight recorder of this layout")
        entries = self._in_order(begin, length, following if length == most else 0, size)
        numbers = [_word(entry, layout["Entry.id_"]) for _, entry in entries]
        if any(after != before + 1 for before, after in zip(numbers, numbers[1:])) or (
                numbers and numbers[-1] >= count):
            raise CorruptStructure(begin, "operations are not numbered")
        self._found = self._of_groups(entries)
        self.ranks = self._read_ranks(address + layout["pg_name_to_ranks_"])

    def _in_order(self, begin: int, length: int, first: int, size: int) -> list[tuple[int, bytes]]:
        """The newest entries with their addresses, oldest first."""
        newest = min(length, _MOST_ENTRIES)
        skipped = length - newest
        start = (first + skipped) % length if length else 0
        pieces = [(start, min(newest, length - start)), (0, max(newest - (length - start), 0))]
        found = []
        for at, count in pieces:
            data = self._memory.read(begin + at * size, count * size) if count else b""
            found += [(begin + (at + i) * size, data[i * size:(i + 1) * size]) for i in range(count)]
        return found

    def _of_groups(self, entries: Sequence[tuple[int, bytes]]) -> Mapping[tuple[str, str], _Work]:
        """What is needed of the operations of each group, by its name and description; most are not decoded."""
        known: dict[bytes, tuple[str, str]] = {}
        last: dict[tuple[str, str], tuple[int, bytes]] = {}
        pending: dict[tuple[str, str], list[tuple[int, bytes]]] = {}
        begin, retired, pair = (self._layout[f"Entry.{name}"] for name in ("pg_name_", "retired_", "isP2P_"))
        for at, entry in entries:
            # two short strings without the pointers to themselves, of which only the text differs between groups
            raw = entry[begin + 8:begin + _STRING.size] + entry[begin + _STRING.size + 8:begin + 2 * _STRING.size]
            key = known.get(raw)
            if key is None:
                key = self._group(at, entry)
                if max(map(len, key)) < _INLINE:
                    known[raw] = key
            if entry[retired] > 1 or entry[pair] > 1:
                raise CorruptStructure(at, "not an operation")
            if not entry[retired]:
                pending.setdefault(key, []).append((at, entry))
            elif not entry[pair]:
                last[key] = (at, entry)
        return {key: _Work(tuple([self._operation(*each) for each in pending.get(key, ())[:_MOST_ITEMS]]),
                           self._operation(*last[key]) if key in last else None)
                for key in dict.fromkeys([*last, *pending])}

    def _group(self, at: int, entry: bytes) -> tuple[str, str]:
        begin = self._layout["Entry.pg_name_"]
        return self._string(at, entry, begin + _STRING.size), self._string(at, entry, begin)

    def _operation(self, at: int, entry: bytes) -> Operation:
        layout = self._layout
        backend, _, function = self._string(at, entry, layout["Entry.profiling_name_"]).partition(":")
        is_pair = entry[layout["Entry.isP2P_"]]
        created = _word(entry, layout["Entry.time_created_"])
        number = _word(entry, layout["Entry.p2p_seq_id_" if is_pair else "Entry.collective_seq_id_"])
        retired = entry[layout["Entry.retired_"]]
        if not function:
            raise CorruptStructure(at, "not an operation")
        shape, of = self._shape(at, entry)
        return Operation(
            function.split()[0], number, bool(is_pair), shape, of, created / 1e9, bool(retired),
            _peer(function), backend)

    def _shape(self, at: int, entry: bytes) -> tuple[tuple[int, ...], str | None]:
        """The sizes and the type of the first tensor that an operation reads."""
        layout = self._layout
        dims = self._numbers(at, entry, layout["Entry.input_dims_"])
        sizes = self._numbers(at, entry, layout["Entry.sizes_"])
        begin, end, _ = _TRIPLE.unpack_from(entry, layout["Entry.input_dtypes_"])
        number = self._memory.read(begin, 1)[0] if 0 < end - begin <= _MOST_ITEMS * 64 else len(_TYPES)
        return (tuple(sizes[:dims[0]]) if dims else (), _TYPES[number] if number < len(_TYPES) else None)

    def _numbers(self, at: int, entry: bytes, offset: int) -> Sequence[int]:
        """The first elements of a ``c10::SmallVector<int64_t, N>``."""
        data, size, _ = _SMALL_VECTOR.unpack_from(entry, offset)
        count = min(size, _MOST_ITEMS)
        inside = data - at
        if 0 <= inside <= len(entry) - 8 * count:
            return struct.unpack_from(f"<{count}q", entry, inside)
        return struct.unpack(f"<{count}q", self._memory.read(data, 8 * count))

    def _string(self, at: int, data: bytes, offset: int) -> str:
        """A ``std::string`` in data that was read from an address."""
        text: bytes
        pointer, length, inline = _STRING.unpack_from(data, offset)
        if pointer == at + offset + 16 and length < _INLINE:
            text, end = inline[:length], inline[length]
        else:
            shown = min(length, _MOST_CHARACTERS)
            if not pointer or length > 1 << 16:
                raise CorruptStructure(at + offset, "not a string")
            read = self._memory.read(pointer, length + 1)
            text, end = read[:shown], read[length]
        if end:
            raise CorruptStructure(at + offset, "a string has no end")
        return text.decode("utf-8", "backslashreplace")

    def _read_ranks(self, at: int) -> Mapping[str, tuple[int, ...]]:
        """The members of each group, by its name: the ranks of the job, in the order of their ranks in the group."""
        found = {}
        for node in self._nodes(at):
            # std::pair<const std::tuple<std::string, std::string>, std::vector<uint64_t>>
            data = self._memory.read(node + _NODE, 2 * _STRING.size + _TRIPLE.size)
            name = self._string(node + _NODE, data, _STRING.size)
            begin, end, _ = _TRIPLE.unpack_from(data, 2 * _STRING.size)
            count, rest = divmod(end - begin, 8)
            if rest or not 0 <= count <= _MOST_RANKS:
                raise CorruptStructure(node, "not a list of ranks")
            found[name] = struct.unpack(f"<{count}Q", self._memory.read(begin, 8 * count))
        return found

    def _nodes(self, at: int) -> Iterator[int]:
        """The nodes of a ``std::map``."""
        root = self._memory.unpack(_MAP_HEADER, at + 8)[1]
        left, seen = [root], 0
        while left and seen < _MOST_NODES:
            node = left.pop()
            if node:
                seen += 1
                _, _, smaller, larger = self._memory.unpack(_MAP_HEADER, node)
                left += [smaller, larger]
                yield node

    def groups(self) -> tuple[Group, ...]:
        """What each group has done last, and what it has not finished."""
        return tuple([Group(name, description, self.ranks.get(name), work.pending, work.last, "recorded")
                      for (name, description), work in self._found.items()])


def _word(data: bytes, offset: int) -> int:
    return int.from_bytes(data[offset:offset + 8], "little")


def _peer(function: str) -> int | None:
    """The other rank of ``send 0->1`` or ``recv 0<-1``; None if the name has none."""
    _, _, ranks = function.partition(" ")
    for arrow in ("->", "<-"):
        if arrow in ranks:
            peer = ranks.partition(arrow)[2]
            return int(peer) if peer.isdecimal() else None
    return None
