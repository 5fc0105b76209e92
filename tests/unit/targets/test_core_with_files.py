"""Memory of a core with mapped files, from made-up bytes."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from gdbext.elf.core_contents import CoreContents
from gdbext.elf.core_file import parse_core
from gdbext.elf.headers import Read
from gdbext.errors import MemoryUnreadable
from gdbext.inferior.address_space import Region
from gdbext.targets.core_with_files import CoreWithFiles
from tests.support import fake_core
from tests.support.fake_core import R, W, X

PATH = "/lib/libx.so"
CONTENT = bytes(range(256)) * 32
# the core has the first page of the file, none of its code, and of its data nothing either
REGIONS = (Region(0x1000, 0x2000, "r", PATH, 0, kept=0x2000), Region(0x2000, 0x3000, "rx", PATH, 0x1000, kept=0x2000),
           Region(0x3000, 0x4000, "rw", PATH, 0x1100, kept=0x3000),
           Region(0x8000, 0x9000, "rw", None, 0, kept=0x8010))


def memory(files: Mapping[str, Read] | None = None, is_truncated: bool = False) -> CoreWithFiles:
    data = fake_core.core([(R, 0x1000, 0x1000), (R | W | X, 0x8000, 16)])

    def read(offset: int, size: int) -> bytes:
        return data[offset:offset + size]

    core = CoreContents(read, parse_core(read, len(data)))
    known = {PATH: lambda offset, size: CONTENT[offset:offset + size]} if files is None else files
    return CoreWithFiles(core, REGIONS, known, is_truncated)


def test_core_comes_before_the_file() -> None:
    assert memory().read(0x1010, 16) == bytes(16)
    assert memory().read(0x8000, 16) == bytes(16)


def test_file_has_what_the_core_lacks_at_the_offset_of_its_mapping() -> None:
    assert memory().read(0x2001, 4) == CONTENT[0x1001:0x1005]
    assert memory().read(0x3000, 4) == CONTENT[0x1100:0x1104]


def test_one_read_may_continue_from_the_core_into_the_file() -> None:
    assert memory().read(0x1FFE, 6) == bytes(2) + CONTENT[0x1000:0x1004]
    # each mapping has its own offset
    assert memory().read(0x2FFE, 4) == CONTENT[0x1FFE:0x2000] + CONTENT[0x1100:0x1102]


def test_writable_mapping_of_a_truncated_core_is_unreadable() -> None:
    truncated = memory(is_truncated=True)
    assert truncated.read(0x2000, 4) == CONTENT[0x1000:0x1004]
    with pytest.raises(MemoryUnreadable):
        truncated.read(0x3000, 4)


@pytest.mark.parametrize(("address", "size"), [(0x8010, 1), (0x800F, 2), (0x5000, 1), (0, 8), (-8, 8), (0x1000, -1),
                                               (0x1000, 1 << 40), ((1 << 64) - 4, 8)])
def test_other_memory_is_unreadable(address: int, size: int) -> None:
    with pytest.raises(MemoryUnreadable):
        memory().read(address, size)


def test_file_that_is_not_known_is_unreadable() -> None:
    with pytest.raises(MemoryUnreadable):
        memory({}).read(0x2000, 4)


def test_file_that_ends_early_is_unreadable() -> None:
    with pytest.raises(MemoryUnreadable):
        memory({PATH: lambda offset, size: CONTENT[:0x1004][offset:offset + size]}).read(0x2000, 8)
