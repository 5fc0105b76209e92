from __future__ import annotations

from gdbext.inferior.address_space import AddressSpace, Region

TEXT, DATA, GUARD, STACK = (Region(0x1000, 0x3000, "rx", "/bin/a"), Region(0x3000, 0x4000, "rw", "/bin/a", 0x2000),
                            Region(0x7000, 0x8000, "", None), Region(0x8000, 0xA000, "rw", "[stack]"))


def test_find_returns_the_mapping_with_an_address() -> None:
    space = AddressSpace([STACK, TEXT, GUARD, DATA])
    assert len(space) == 4
    assert [space.find(at) for at in (0, 0xFFF, 0x1000, 0x2FFF, 0x3000, 0x3FFF, 0x4000, 0x6FFF)] == [
        None, None, TEXT, TEXT, DATA, DATA, None, None]
    assert [space.find(at) for at in (0x7000, 0x8000, 0x9FFF, 0xA000, 1 << 64)] == [GUARD, STACK, STACK, None, None]


def test_above_returns_the_next_mapping() -> None:
    space = AddressSpace([STACK, TEXT, GUARD, DATA])
    assert [space.above(at) for at in (0, 0x1000, 0x3000, 0x6000, 0x7000, 0x8000, 1 << 64)] == [
        TEXT, DATA, GUARD, GUARD, STACK, None, None]


def test_address_space_when_empty_finds_nothing() -> None:
    space = AddressSpace([])
    assert (len(space), space.find(0x1000), space.above(0x1000)) == (0, None, None)


def test_allows_when_permissions_are_unknown_is_none() -> None:
    assert [TEXT.allows(each) for each in "rwx"] == [True, False, True]
    assert [GUARD.allows(each) for each in "rwx"] == [False, False, False]
    unknown = Region(0, 1, None, None)
    assert [unknown.allows(each) for each in "rwx"] == [None, None, None]


def test_find_when_region_is_empty_returns_none() -> None:
    space = AddressSpace([Region(0x1000, 0x1000, "r", None)])
    assert space.find(0x1000) is None
