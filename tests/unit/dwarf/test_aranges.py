"""The unit of an address, with and without ``.debug_aranges``."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from gdbext.dwarf.aranges import UnitRanges
from tests.support import dwarf_files


@pytest.mark.parametrize("remove", [[], ["--remove-section", ".debug_aranges"]])
@pytest.mark.parametrize("flags", [["-gdwarf-4"], ["-gdwarf-5"], ["-ffunction-sections"]])
def test_unit_is_found_by_an_address(remove: list[str], flags: list[str], tmp_path: Path) -> None:
    made = dwarf_files.build(tmp_path, *flags)
    subprocess.run(["objcopy", *remove, made, tmp_path / "other"], check=True)
    found = dwarf_files.units(tmp_path / "other")
    ranges = UnitRanges(found)
    with found.sections.budget.spending():
        for name in (" main", "bank::transfer(int volatile*)"):
            addresses = dwarf_files.function(made, name)
            assert ranges.find(addresses[0]) is ranges.find(addresses[-1]) is found.at(0)
        assert ranges.find(1) is None
        assert ranges.find(1 << 40) is None
