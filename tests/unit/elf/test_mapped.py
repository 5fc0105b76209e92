"""Loaded files that only the mappings show: in fake memory, and in the process of the test."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from pathlib import Path

from gdbext.elf.headers import Read
from gdbext.elf.mapped import MappedModule, mapped_modules
from gdbext.errors import MemoryUnreadable
from gdbext.inferior.address_space import Region
from gdbext.inferior.proc.process import Proc
from gdbext.inferior.protocol import Module, Section
from tests.support.fake_elf import elf_headers
from tests.support.fake_memory import FakeMemory

BASE, SIZE = 0x7000_0000_0000, 0x3000
PATH = "/opt/libx.so"
#: Program headers (kind, flags, offset, address, size) of code and frame descriptions.
SEGMENTS = ((1, 4, 0, 0, 0x1000), (1, 5, 0x1000, 0x1000, 0x1000), (0x6474E550, 4, 0x2000, 0x2000, 0x100))
REGIONS = (Region(BASE, BASE + 0x1000, "r", PATH), Region(BASE + 0x1000, BASE + 0x2000, "rx", PATH, 0x1000),
           Region(BASE + 0x2000, BASE + SIZE, "r", PATH, 0x2000))


def image() -> bytes:
    """The mapped file, without a table of sections."""
    return elf_headers(SEGMENTS).ljust(SIZE, b"\0")


def found(regions: Sequence[Region], known: Sequence[Module] = (), memory: FakeMemory | None = None,
          data: bytes | None = None) -> list[MappedModule]:
    def read(offset: int, size: int) -> bytes:
        assert data is not None
        return data[offset:offset + size]

    memory = FakeMemory({BASE: image()}) if memory is None else memory
    return list(mapped_modules(memory, regions, known, lambda path: None if data is None else read))


def test_mapped_modules_when_file_is_deleted_has_segments() -> None:
    (each,) = found(REGIONS)
    assert (each.module.path, each.module.by_mapping, each.file, each.bias) == (PATH, True, None, BASE)
    assert each.module.contains(BASE + 0x1000)
    assert not each.module.contains(BASE + 0x800)
    assert each.module.section(".eh_frame_hdr") == Section(".eh_frame_hdr", BASE + 0x2000, BASE + 0x2100)
    assert each.symbol(BASE + 0x1000) is None


def test_mapped_modules_when_permissions_are_unknown() -> None:
    """A core may lack these segments; then the file's program headers identify the code."""
    (each,) = found([Region(region.start, region.end, None, PATH, region.offset) for region in REGIONS])
    assert each.module.contains(BASE + 0x1000)


def test_mapped_modules_when_module_is_known_is_empty() -> None:
    known = Module("./libx.so", (Section("odd", BASE + 0x1800, BASE + 0x1810),))
    assert found(REGIONS, [known]) == []
    neighbour = Module("/lib/other.so", (Section(".text", BASE + SIZE, BASE + SIZE + 0x10),
                                      Section(".text", BASE - 0x10, BASE)))
    assert len(found(REGIONS, [neighbour])) == 1


def test_mapped_modules_when_file_is_not_elf_is_empty() -> None:
    text = FakeMemory({BASE: b"no program".ljust(SIZE, b"\0")})
    assert found(REGIONS, memory=text) == []
    assert found(REGIONS, memory=text, data=image()) == []


def test_mapped_modules_without_the_header_is_empty() -> None:
    """Without the header, the place of the code is only known from a file with sections."""
    assert found(REGIONS, memory=FakeMemory()) == []
    assert found(REGIONS[1:]) == []


def test_mapped_modules_when_file_on_disk_differs() -> None:
    (each,) = found(REGIONS, data=image().replace(b"\x7fELF", b"\x7fELF\2\1\1\1", 1))
    assert each.file is None


class OwnMemory:
    """Memory of this process."""

    def read(self, address: int, size: int) -> bytes:
        with open("/proc/self/mem", "rb", buffering=0) as file:
            try:
                data = os.pread(file.fileno(), size, address)
            except OSError:
                data = b""
        if len(data) < size:
            raise MemoryUnreadable(address, size)
        return data


def test_mapped_modules_finds_the_own_c_library() -> None:
    def opened(path: str) -> Read:
        data = Path(path).read_bytes()
        return lambda offset, size: data[offset:offset + size]

    address = ctypes.cast(ctypes.CDLL(None).getpid, ctypes.c_void_p).value
    assert address is not None
    regions = [region for region in Proc(os.getpid()).regions() if "libc" in (region.path or "")]
    (libc,) = [each for each in mapped_modules(OwnMemory(), regions, [], opened) if each.module.contains(address)]
    assert libc.file is not None
    text = libc.module.section(".text")
    assert text is not None
    assert text.start <= address < text.end
