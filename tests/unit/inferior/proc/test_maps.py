"""Mappings and memory of a process."""

from __future__ import annotations

import ctypes
import gc
import mmap
import os
from pathlib import Path

import pytest

from gdbext.errors import MemoryUnreadable, NoTarget
from gdbext.inferior.address_space import Region
from gdbext.inferior.proc.maps import ProcessMemory, read_maps, read_memory, used_parts
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


PAGE = os.sysconf("SC_PAGE_SIZE")


def test_used_parts_of_reserved_memory() -> None:
    with mmap.mmap(-1, 16 * PAGE) as memory:
        address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        memory[4 * PAGE:4 * PAGE + 1] = memory[5 * PAGE:5 * PAGE + 1] = memory[9 * PAGE:9 * PAGE + 1] = b"x"
        region = Region(address, address + 16 * PAGE, "rw", None, 0, False, None, None)
        if not os.access("/proc/self/pagemap", os.R_OK):
            pytest.skip("this kernel does not show which pages are used")
        found = used_parts(os.getpid(), region)
        assert found == [(address + 4 * PAGE, address + 6 * PAGE), (address + 9 * PAGE, address + 10 * PAGE)]
        gc.collect()  # what points into the memory


def test_used_parts_when_not_known_are_the_whole(fake: FakeProc) -> None:
    region = Region(0x1000, 0x1000 + 2 * PAGE, "rw", None, 0, False, None, None)
    assert used_parts(fake.pid, region, str(fake.root)) == [(region.start, region.end)]
    fake.write(f"{fake.pid}/pagemap", "\0" * 7)
    assert used_parts(fake.pid, region, str(fake.root)) == [(region.start, region.end)]
