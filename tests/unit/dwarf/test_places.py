"""What debug information says of an address; what it says is compared with GDB in tests/gdb/test_source_lines.py."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from gdbext.dwarf.places import DebugInformation, Place
from gdbext.dwarf.sections import Budget, OutOfTime
from gdbext.errors import GdbextError
from tests.support import dwarf_files


def information(made: Path, seconds: float = 60) -> DebugInformation:
    return DebugInformation(dwarf_files.opened(made), Budget(seconds), lambda: None)


def test_place_has_the_call_that_is_inlined(tmp_path: Path) -> None:
    made = dwarf_files.build(tmp_path)
    found = information(made)
    addresses = dwarf_files.function(made, "bank::transfer(int volatile*)")
    places = [found.find(address, addresses.start) for address in addresses]
    (inlined,) = {(call.function, call.file, call.line, place.line) for place in places if place is not None
                  for call in place.inlined if call.line == dwarf_files.line("pay")}
    assert inlined == ("bank::(anonymous namespace)::pay", "bank.cc", dwarf_files.line("pay"),
                       dwarf_files.line("call of pay"))
    assert {place.function for place in places if place is not None} == {"_ZN4bank8transferEPVi"}


@pytest.mark.parametrize("version", [4, 5])
def test_files_have_the_names_by_which_they_were_compiled(version: int, tmp_path: Path) -> None:
    for path in ("bank.cc", "./bank.cc", str(tmp_path / "bank.cc")):
        made = dwarf_files.build(tmp_path, f"-gdwarf-{version}", source=path)
        main = dwarf_files.function(made, " main").start
        place = information(made).find(main, main)
        assert place is not None
        assert place.file == path


def test_symbol_of_a_part_that_was_placed_elsewhere_decides_the_name(tmp_path: Path) -> None:
    made = dwarf_files.build(tmp_path)
    addresses = dwarf_files.function(made, " main")
    place = information(made).find(addresses[-1], addresses[2])
    assert place is not None
    assert place.function is None
    assert place.line is not None
    assert dwarf_files.line("main") <= place.line <= dwarf_files.line("main") + 1


def test_address_without_debug_information_has_no_place(tmp_path: Path) -> None:
    found = information(dwarf_files.build(tmp_path))
    assert found.find(1, None) is None
    assert found.find(1 << 50, None) is None


def test_reading_ends_when_the_time_is_over(tmp_path: Path) -> None:
    made = dwarf_files.build(tmp_path)
    with pytest.raises(OutOfTime):
        information(made, 0).find(dwarf_files.function(made, " main").start, None)


def test_debug_information_in_another_file_is_an_error(tmp_path: Path) -> None:
    made = dwarf_files.build(tmp_path, "-gsplit-dwarf")
    with pytest.raises(GdbextError, match="in another file"):
        information(made).find(dwarf_files.function(made, " main").start, None)


@pytest.mark.parametrize("section", [".debug_info", ".debug_line", ".debug_abbrev", ".debug_aranges",
                                     ".debug_rnglists"])
def test_damaged_section_raises_nothing_else(section: str, tmp_path: Path) -> None:
    made = dwarf_files.build(tmp_path, "-ffunction-sections")
    damaged = dwarf_files.opened(made).section(section)
    assert damaged is not None
    addresses = [*dwarf_files.function(made, "bank::transfer(int volatile*)"), *dwarf_files.function(made, " main")]
    data, dice, known = made.read_bytes(), random.Random(3), 0
    place = tmp_path / "bad"
    for _ in range(60):
        bad = bytearray(data)
        bad[damaged.offset + dice.randrange(damaged.size)] = dice.randrange(256)
        place.write_bytes(bad)
        try:
            found = information(place)
            known += sum(isinstance(found.find(address, None), Place) for address in addresses[::7])
        except GdbextError:
            pass
    assert known
