"""The function of an address, and the calls inlined there."""

from __future__ import annotations

from pathlib import Path

import pytest

from gdbext.dwarf.functions import Functions
from tests.support import dwarf_files


@pytest.mark.parametrize("flags", [["-gdwarf-3"], ["-gdwarf-4"], ["-gdwarf-5"], ["-gstrict-dwarf"]])
def test_inlined_calls_have_the_lines_of_their_calls(flags: list[str], tmp_path: Path) -> None:
    made = dwarf_files.build(tmp_path, *flags)
    found = dwarf_files.units(made)
    functions, unit = Functions(found, None), found.at(0)
    seen = set()
    with found.sections.budget.spending():
        for address in dwarf_files.function(made, "bank::transfer(int volatile*)"):
            own, calls = functions.at(unit, address)
            assert own is not None
            assert own.linkage_name == "_ZN4bank8transferEPVi"
            seen |= {(call.name, call.line) for call in calls}
        assert functions.at(unit, 1) == (None, ())
    assert ("bank::(anonymous namespace)::pay", dwarf_files.line("call of pay")) in seen
    assert all(name.endswith(("pay", "_ZN4bank5VaultIViE3putES1_")) for name, _ in seen)
