"""Mappings and memory of a process."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gdbext.errors import MemoryUnreadable, NoTarget
from gdbext.inferior.address_space import Region
from gdbext.inferior.proc.maps import ProcessMemory, read_maps, read_memory
from tests.support.fake_proc import FakeProc


@pytest.fixture
def fake(tmp_path: Path) -> FakeProc:
    return FakeProc(tmp_path)


def test_names_of_mapped_files_may_separate_lines(fake: FakeProc) -> None:
    """The kernel escapes a newline in a name, and nothing else."""
    fake.write(f"{fake.pid}/maps", "1000-2000 r-xp 00000000 fe:00 5    /tmp/lib\\012a.so\n"
                                   "3000-4000 r--p 00000000 fe:00 6    /tmp/\u2028b\x0c\x85.so\n")
    assert [region.path for region in fake.proc().regions()] == ["/tmp/lib\na.so", "/tmp/\u2028b\x0c\x85.so"]


def test_mapping_has_device_inode_and_permissions(fake: FakeProc) -> None:
    fake.write("100/maps", "1000-2000 rw-s 00003000 00:1f 77    /dev/shm/x\n2000-3000 ---p 00000000 00:00 0 \n")
    assert read_maps(100, str(fake.root)) == (
        Region(0x1000, 0x2000, "rw", "/dev/shm/x", 0x3000, True, None, ("00:1f", 77)),
        Region(0x2000, 0x3000, "", None, 0, False, None, ("00:00", 0)))
    assert read_maps(101, str(fake.root)) is None


def test_memory_of_this_process() -> None:
    data = b"some bytes of this process"
    address = id(data) + data.__sizeof__() - len(data) - 1
    assert read_memory(os.getpid(), address, len(data)) == data
    memory = ProcessMemory(os.getpid())
    assert memory.read(address, len(data)) == data
    for at, size in ((8, 1), (-1, 1), (1 << 64, 1), (address, -1), (address, 1 << 40)):
        with pytest.raises(MemoryUnreadable):
            memory.read(at, size)
    memory.close()
    assert memory.read_some(address, 1) == b""


def test_memory_of_a_process_that_does_not_exist() -> None:
    assert read_memory(1 << 30, 8, 8) is None
    with pytest.raises(NoTarget):
        ProcessMemory(1 << 30)


def test_read_memory_up_to_the_first_gap() -> None:
    last = max(region.end for region in read_maps(os.getpid()) or () if "r" in (region.permissions or "")
               and region.path == "[stack]")
    assert read_memory(os.getpid(), last - 8, 64) is None
    assert len(read_memory(os.getpid(), last - 8, 64, some=True) or b"") == 8
