"""Fields, structures and readers: bytes in, integers out."""

from __future__ import annotations

import dataclasses
import json

import pytest

from gdbext.errors import CorruptStructure, MemoryUnreadable, UnknownLayout
from gdbext.layout.table import MAX_STRUCT, Field, Layouts, Struct, parse_table

BASE = 0x7F0000001000


class Bytes:
    """Memory with one mapped range; records each read."""

    def __init__(self, data: bytes, base: int = BASE) -> None:
        self._data = data
        self._base = base
        self.reads: list[tuple[int, int]] = []

    def read(self, address: int, size: int) -> bytes:
        self.reads.append((address, size))
        start = address - self._base
        if start < 0 or start + size > len(self._data):
            raise MemoryUnreadable(address, size)
        return self._data[start:start + size]


def layouts(**structs: Struct) -> Layouts:
    return Layouts("cpython", "3.11.7", "default", "x86_64", structs, producer="a compiler", build_id="ab")


# -- fields -----------------------------------------------------------------------------------------------------

@pytest.mark.parametrize(("field", "expected"), [
    (Field(0, 1), 0xFE),
    (Field(0, 1, signed=True), -2),
    (Field(0, 2), 0xFFFE),
    (Field(0, 2, signed=True), -2),
    (Field(0, 4), 0x8001FFFE),
    (Field(0, 4, signed=True), 0x8001FFFE - (1 << 32)),
    (Field(2, 2), 0x8001),
    (Field(0, 8), 0x110000008001FFFE),
    (Field(4, 0), 0),
])
def test_extract(field: Field, expected: int) -> None:
    assert field.extract(b"\xfe\xff\x01\x80\x00\x00\x00\x11") == expected


@pytest.mark.parametrize(("bits", "expected"), [
    ((0, 2), 0b01), ((2, 3), 0b101), ((5, 1), 1), ((6, 1), 0), ((4, 8), 0x9B)])
def test_extract_bit_field(bits: tuple[int, int], expected: int) -> None:
    assert Field(1, 4, bits=bits).extract(b"\xff" + (0x9B5 & ~0x40 | 0x9 << 8).to_bytes(4, "little")) == expected


def test_extract_bit_field_is_not_negative() -> None:
    assert Field(0, 4, signed=True, bits=(31, 1)).extract(b"\xff\xff\xff\xff") == 1


# -- structures and readers -------------------------------------------------------------------------------------

DATA = bytes(range(0x10, 0x40))
MUTEX = Struct("mutex", 40, {
    "lock": Field(0, 4, signed=True), "count": Field(4, 4), "owner": Field(8, 4, signed=True), "kind": Field(16, 4),
    "list": Field(24, 16), "kind_low": Field(16, 4, bits=(0, 4)), "whole": Field(0, 8), "byte": Field(17, 1),
    "tail": Field(40, 0)})


def test_struct_returns_members_by_name() -> None:
    assert "owner" in MUTEX
    assert "spins" not in MUTEX
    assert MUTEX.offset("owner") == 8
    assert MUTEX["kind"] == Field(16, 4)
    with pytest.raises(UnknownLayout, match="mutex has no member spins"):
        MUTEX["spins"]


def test_reader_reads_once_and_only_the_needed_bytes() -> None:
    memory = Bytes(DATA)
    assert MUTEX.reader("count", "owner", "kind")(memory, BASE) == (0x17161514, 0x1B1A1918, 0x23222120)
    assert memory.reads == [(BASE + 4, 16)]


def test_reader_returns_members_in_argument_order() -> None:
    memory = Bytes(DATA)
    assert MUTEX.reader("kind", "lock", "owner")(memory, BASE) == (0x23222120, 0x13121110, 0x1B1A1918)
    assert memory.reads == [(BASE, 20)]


def test_reader_of_one_member() -> None:
    memory = Bytes(DATA)
    assert MUTEX.reader("kind")(memory, BASE) == (0x23222120,)
    assert memory.reads == [(BASE + 16, 4)]


def test_reader_of_overlapping_members() -> None:
    assert MUTEX.reader("whole", "count")(Bytes(DATA), BASE) == (0x1716151413121110, 0x17161514)
    assert MUTEX.reader("byte", "kind", "lock")(Bytes(DATA), BASE) == (0x21, 0x23222120, 0x13121110)


def test_reader_of_the_same_member_twice() -> None:
    assert MUTEX.reader("lock", "lock")(Bytes(DATA), BASE) == (0x13121110, 0x13121110)


def test_reader_of_bit_fields_and_plain_members() -> None:
    memory = Bytes(DATA)
    assert MUTEX.reader("owner", "kind_low")(memory, BASE) == (0x1B1A1918, 0)
    assert memory.reads == [(BASE + 8, 12)]


def test_reader_of_members_with_unusual_sizes() -> None:
    value, = MUTEX.reader("list")(Bytes(DATA), BASE)
    assert value == int.from_bytes(DATA[24:40], "little")
    assert MUTEX.reader("kind", "tail")(Bytes(DATA), BASE) == (0x23222120, 0)


def test_reader_of_signed_members() -> None:
    memory = Bytes(b"\xff" * 48)
    assert MUTEX.reader("lock", "count", "owner")(memory, BASE) == (-1, 0xFFFFFFFF, -1)
    assert MUTEX.reader("whole", "lock")(memory, BASE) == ((1 << 64) - 1, -1)


def test_reader_is_cached() -> None:
    assert MUTEX.reader("lock", "owner") is MUTEX.reader("lock", "owner")
    assert MUTEX.reader("lock", "owner") is not MUTEX.reader("owner", "lock")


def test_reader_when_member_is_unknown_raises() -> None:
    with pytest.raises(UnknownLayout):
        MUTEX.reader("lock", "spins")


@pytest.mark.parametrize("address", [0, BASE - 1, BASE + len(DATA) - 4])
def test_reader_when_memory_is_unreadable_raises(address: int) -> None:
    with pytest.raises(MemoryUnreadable) as caught:
        MUTEX.reader("lock", "owner")(Bytes(DATA), address)
    assert (caught.value.address, caught.value.size) == (address, 12)


def test_reader_of_bit_field_when_unreadable_raises() -> None:
    with pytest.raises(MemoryUnreadable):
        MUTEX.reader("kind_low")(Bytes(DATA), 8)


def test_reader_when_members_are_too_far_apart_raises() -> None:
    runtime = Struct("runtime", 4 << 20, {"first": Field(0, 8), "last": Field(MAX_STRUCT, 8)})
    assert runtime.reader("first")(Bytes(DATA), BASE) == (0x1716151413121110,)
    with pytest.raises(CorruptStructure, match="too large"):
        runtime.reader("first", "last")


# -- layouts ----------------------------------------------------------------------------------------------------

def test_layouts_contain_structures_and_members() -> None:
    known = layouts(mutex=MUTEX)
    assert "mutex" in known
    assert known["mutex"] is MUTEX
    assert known.has("mutex", "owner")
    assert not known.has("mutex", "spins")
    assert not known.has("rwlock", "owner")
    with pytest.raises(UnknownLayout, match=r"cpython 3\.11\.7 has no rwlock"):
        known["rwlock"]


def test_version_tuple() -> None:
    assert layouts().version_tuple == (3, 11, 7)


def test_replaced_members() -> None:
    before = layouts(mutex=MUTEX)
    after = before.replaced("debug-offsets", {"mutex": {"owner": Field(12, 4)}}, {})
    assert after["mutex"].offset("owner") == 12
    assert after["mutex"].offset("kind") == 16
    assert after["mutex"].size == 40
    assert after.source == "debug-offsets"
    assert (after.version, after.build, after.machine, after.producer, after.build_id) == (
        "3.11.7", "default", "x86_64", "a compiler", "ab")
    # the shared table and its readers are unchanged
    assert before["mutex"].offset("owner") == 8
    assert before.source == "table"
    assert MUTEX.reader("owner")(Bytes(DATA), BASE) != after["mutex"].reader("owner")(Bytes(DATA), BASE)


def test_replaced_size_and_new_structure() -> None:
    after = layouts(mutex=MUTEX).replaced("dwarf", {"mutex": {"spins": Field(20, 2)}, "rwlock": {"w": Field(4, 4)}},
                                          {"mutex": 48})
    assert (after["mutex"].size, after["mutex"].offset("spins")) == (48, 20)
    assert (after["rwlock"].size, after["rwlock"].offset("w")) == (0, 4)


def test_layouts_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        layouts().version = "3.12.0"  # type: ignore[misc]


# -- tables -----------------------------------------------------------------------------------------------------

def test_parse_table() -> None:
    known = parse_table(json.dumps({
        "runtime": "glibc", "version": "2.36", "build": "default", "machine": "aarch64", "producer": "P",
        "build_id": "93ac", "structs": {"s": {"size": 24, "members": {
            "plain": [0, 8], "negative": [8, 4, "signed"], "bits": [12, 4, 2, 3], "array": [16, 0]}}}}))
    assert (known.runtime, known.version, known.build, known.machine) == ("glibc", "2.36", "default", "aarch64")
    assert (known.source, known.producer, known.build_id) == ("table", "P", "93ac")
    assert known["s"].size == 24
    assert dict(known["s"].fields) == {
        "plain": Field(0, 8), "negative": Field(8, 4, signed=True), "bits": Field(12, 4, bits=(2, 3)),
        "array": Field(16, 0)}


def test_parse_table_without_origin() -> None:
    known = parse_table('{"runtime": "cpython", "version": "3.9.2", "build": "default", "machine": "x86_64", '
                        '"structs": {}}')
    assert (known.producer, known.build_id, dict(known.structs)) == ("", "", {})
