"""Debug sections, compressed or not, and the time that reading them may take."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from gdbext.dwarf.sections import Budget, DebugSections, OutOfTime
from gdbext.errors import CorruptStructure
from tests.support import dwarf_files


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_only_the_time_inside_counts() -> None:
    clock = Clock()
    budget = Budget(2.0, clock)
    for _ in range(3):
        clock.now += 50
        with budget.spending():
            clock.now += 0.5
            budget.check()


def test_time_that_is_over_ends_all_reading() -> None:
    clock = Clock()
    budget = Budget(2.0, clock)
    with budget.spending():
        clock.now += 3
        with pytest.raises(OutOfTime):
            budget.check()
    with pytest.raises(OutOfTime), budget.spending():
        pass


@pytest.mark.parametrize("way", ["zlib-gabi", "zlib-gnu"])
def test_compressed_section_is_that_of_the_file(way: str, tmp_path: Path) -> None:
    made = dwarf_files.build(tmp_path)
    subprocess.run(["objcopy", f"--compress-debug-sections={way}", made, tmp_path / "small"], check=True)
    plain, small = dwarf_files.sections(made), dwarf_files.sections(tmp_path / "small")
    for name in (".debug_info", ".debug_str"):
        assert small.size(name) == plain.size(name) > 0
        assert small.read(name, 0, 1 << 20) == plain.read(name, 0, 1 << 20)
    assert small.read(".debug_info", 10, 5) == plain.read(".debug_info", 10, 5)


def test_section_that_cannot_be_decompressed_is_corrupt(tmp_path: Path) -> None:
    made = dwarf_files.build(tmp_path, "-gz")
    section = dwarf_files.opened(made).section(".debug_info")
    assert section is not None
    data = bytearray(made.read_bytes())
    for at, value in ((section.offset, 2), (section.offset + 40, 0xFF)):  # zstd, and a wrong byte
        bad = data.copy()
        bad[at] = value
        place = tmp_path / "bad"
        place.write_bytes(bad)
        with pytest.raises(CorruptStructure):
            dwarf_files.sections(place).read(".debug_info", 0, 1 << 20)


def test_what_is_not_there_is_corrupt(tmp_path: Path) -> None:
    made = dwarf_files.build(tmp_path)
    found = dwarf_files.sections(made)
    assert found.size(".debug_nothing") == 0
    for name, offset in ((".debug_nothing", 0), (".debug_str", 1 << 40), (".debug_str", -1)):
        with pytest.raises(CorruptStructure):
            found.read(name, offset, 8)


def test_section_of_a_file_without_its_contents_is_not_there(tmp_path: Path) -> None:
    made = dwarf_files.build(tmp_path)
    shutil.copy(made, tmp_path / "copy")
    subprocess.run(["objcopy", "--set-section-flags", ".debug_str=alloc", tmp_path / "copy"], check=False)
    subprocess.run(["objcopy", "--only-keep-debug", made, tmp_path / "debug"], check=True)
    found = DebugSections(dwarf_files.opened(tmp_path / "debug"), Budget(1))
    assert found.size(".text") == 0
    assert found.size(".debug_str") > 0


def test_string_is_read_to_its_end(tmp_path: Path) -> None:
    found = dwarf_files.sections(dwarf_files.build(tmp_path))
    data = found.read(".debug_str", 0, 1 << 20)
    assert found.string(".debug_str", data.index(b"transfer")).startswith("transfer")
    with pytest.raises(CorruptStructure):
        found.string(".debug_str", len(data))
