"""Units and entries, in programs of gcc."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from gdbext.dwarf import units
from gdbext.errors import CorruptStructure, GdbextError
from tests.support import dwarf_files

SUBPROGRAM, NAMESPACE = 0x2E, 0x39


@pytest.mark.parametrize("version", [2, 3, 4, 5])
def test_unit_describes_its_source(version: int, tmp_path: Path) -> None:
    found = dwarf_files.units(dwarf_files.build(tmp_path, f"-gdwarf-{version}"))
    with found.sections.budget.spending():
        (head,) = found.headers()
        unit = found.at(head.start)
        assert (head.version, unit.text(unit.root, units.NAME)) == (version, "bank.cc")
        assert unit.text(unit.root, units.COMP_DIR) == str(tmp_path)
        names = [unit.text(entry, units.NAME) for entry in unit.children(unit.root, frozenset((SUBPROGRAM,)))]
        assert "main" in names
        (space,) = [entry for entry in unit.children(unit.root, frozenset((NAMESPACE,)))
                    if unit.text(entry, units.NAME) == "bank"]
        assert found.containing(space.at) is unit


def test_parents_are_the_namespaces_and_types_around(tmp_path: Path) -> None:
    found = dwarf_files.units(dwarf_files.build(tmp_path))
    with found.sections.budget.spending():
        unit = found.at(0)
        tags = frozenset((NAMESPACE,))
        (bank,) = [entry for entry in unit.children(unit.root, tags) if unit.text(entry, units.NAME) == "bank"]
        inside = next(unit.children(bank, frozenset((SUBPROGRAM, NAMESPACE))))
        assert [entry.at for entry in unit.parents(inside.at, tags)] == [bank.at]
        assert unit.parents(bank.at, tags) == []


def test_ranges_are_the_addresses_of_the_function(tmp_path: Path) -> None:
    made = dwarf_files.build(tmp_path)
    found = dwarf_files.units(made)
    with found.sections.budget.spending():
        unit = found.at(0)
        own = [unit.ranges(entry) for entry in unit.children(unit.root, frozenset((SUBPROGRAM,)))
               if unit.text(entry, units.NAME) == "main"]
    addresses = dwarf_files.function(made, " main")
    assert own == [[(addresses.start, addresses.stop)]]


def test_entry_outside_of_all_units_is_corrupt(tmp_path: Path) -> None:
    found = dwarf_files.units(dwarf_files.build(tmp_path))
    with found.sections.budget.spending():
        for offset in (1 << 40, -1):
            with pytest.raises(CorruptStructure):
                found.containing(offset)
        with pytest.raises(CorruptStructure):
            found.at(0).entry(0)


@pytest.mark.parametrize("version", [4, 5])
def test_damaged_information_raises_nothing_else(version: int, tmp_path: Path) -> None:
    made = dwarf_files.build(tmp_path, f"-gdwarf-{version}")
    section = dwarf_files.opened(made).section(".debug_info")
    assert section is not None
    data, dice, caught = made.read_bytes(), random.Random(7), 0
    place = tmp_path / "bad"
    for _ in range(100):
        bad = bytearray(data)
        for _ in range(4):
            bad[section.offset + dice.randrange(section.size)] = dice.randrange(256)
        place.write_bytes(bad)
        found = dwarf_files.units(place)
        try:
            with found.sections.budget.spending():
                for head in found.headers():
                    unit = found.at(head.start)
                    for entry in unit.children(unit.root, frozenset((SUBPROGRAM, NAMESPACE))):
                        unit.ranges(entry)
                        unit.text(entry, units.NAME)
        except GdbextError:
            caught += 1
    assert caught > 5
