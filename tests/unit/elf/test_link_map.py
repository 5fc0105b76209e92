"""The dynamic linker's list in fake memory: the files found, and the cost of a damaged list."""

from __future__ import annotations

import itertools
import os
import struct
from collections.abc import Sequence

import pytest

from gdbext.elf.link_map import LinkedFile, linked_files

PT_LOAD, PT_DYNAMIC, PT_PHDR = 1, 2, 6
DT_NULL, DT_NEEDED, DT_DEBUG = 0, 1, 21
AT_PHDR, AT_PHNUM = 3, 5
PROGRAM_HEADER = struct.Struct("<IIQQQQQQ")
LINK = struct.Struct("<QQQQ")
#: Places in these processes: link-time addresses in the executable, absolute addresses elsewhere.
HEADERS, DYNAMIC, R_DEBUG, LINKS, NAMES = 0x40, 0x3000, 0x7F00_0000_0000, 0x7F00_0001_0000, 0x7F00_0002_0000
FIXED, PIE = 0x40_0000, 0x5555_5555_4000


class Process:
    """A process with a loaded executable; `links` are (name, bias, dynamic section) of the linked files.

    `requests` records the reads: (address, size).

    :param bias: value added to link-time addresses of the executable.
    :param base: link-time address of the executable's start.
    """

    def __init__(self, links: Sequence[tuple[bytes, int, int]] = (), *, bias: int = PIE, base: int = 0,
                 tags: Sequence[tuple[int, int]] = ((DT_NEEDED, 7), (DT_DEBUG, R_DEBUG), (DT_NULL, 0))) -> None:
        self.pieces: dict[int, bytes] = {}
        self.requests: list[tuple[int, int]] = []
        self.headers = bias + base + HEADERS
        self.pieces[bias + base + DYNAMIC] = b"".join(struct.pack("<QQ", *tag) for tag in tags)
        self.set_headers([(PT_PHDR, base + HEADERS, 3 * PROGRAM_HEADER.size), (PT_LOAD, base, 0x4000),
                          (PT_DYNAMIC, base + DYNAMIC, 16 * len(tags))])
        self.pieces[R_DEBUG] = struct.pack("<QQQ", 1, LINKS if links else 0, 0)
        for index, (name, where, dynamic) in enumerate(links):
            at = NAMES + 0x1000 * index
            self.pieces[at] = name + b"\0"
            following = LINKS + 0x100 * (index + 1) if index + 1 < len(links) else 0
            self.pieces[LINKS + 0x100 * index] = LINK.pack(where, at, dynamic, following)

    def set_headers(self, headers: Sequence[tuple[int, int, int]]) -> None:
        """Store program headers: (type, address, size in memory)."""
        self.count = len(headers)
        self.pieces[self.headers] = b"".join(PROGRAM_HEADER.pack(kind, 4, 0, address, 0, 0, size, 8)
                                             for kind, address, size in headers)

    def set_link(self, index: int, name: int, following: int) -> None:
        """Replace a member of the list."""
        self.pieces[LINKS + 0x100 * index] = LINK.pack(0x1000 * index, name, 0, following)

    def auxiliary(self) -> dict[int, int]:
        return {AT_PHDR: self.headers, AT_PHNUM: self.count}

    def read(self, address: int, size: int) -> bytes:
        """Read at most `size` bytes."""
        self.requests.append((address, size))
        for start, piece in self.pieces.items():
            if start <= address < start + len(piece):
                return piece[address - start:][:size]
        return b""

    def found(self) -> list[LinkedFile]:
        # an endless list fails a test rather than hanging it
        return list(itertools.islice(linked_files(self.read, self.auxiliary()), 20_000))

    def names(self) -> list[str]:
        return [file.name for file in self.found()]


LINKED = ((b"", PIE, PIE + DYNAMIC), (b"/lib/libwork.so.1", 0x7F10_0000_0000, 0x7F10_0000_3000),
          (b"/lib/libc.so.6", 0x7F20_0000_0000, 0x7F20_0000_3000))


@pytest.mark.parametrize(("bias", "base"), [(PIE, 0), (0, FIXED), (PIE, FIXED)],
                         ids=["position-independent", "fixed", "linked elsewhere"])
def test_linked_files_of_executables(bias: int, base: int) -> None:
    process = Process(LINKED, bias=bias, base=base)
    assert process.found() == [LinkedFile(name.decode(), where, dynamic) for name, where, dynamic in LINKED]
    assert len(process.requests) == 3 + 2 * len(LINKED)


def test_linked_files_of_fixed_executable_without_pt_phdr() -> None:
    process = Process(LINKED, bias=0, base=FIXED)
    process.set_headers([(PT_DYNAMIC, FIXED + DYNAMIC, 48)])
    assert process.names() == ["", "/lib/libwork.so.1", "/lib/libc.so.6"]


@pytest.mark.parametrize("tags", [(), ((DT_NULL, 0),), ((DT_NEEDED, R_DEBUG),), ((DT_DEBUG, 0),),
                                  ((DT_DEBUG, 0), (DT_DEBUG, R_DEBUG)), ((DT_DEBUG, 1 << 63),),
                                  ((DT_DEBUG, (1 << 64) - 1),)])
def test_linked_files_without_a_list_is_empty(tags: Sequence[tuple[int, int]]) -> None:
    process = Process(LINKED, tags=tags)
    assert process.found() == []
    assert len(process.requests) <= 3


def test_linked_files_when_list_is_not_initialised_is_empty() -> None:
    assert Process().found() == []
    process = Process(LINKED)
    half = LINKS & 0xFFFF_FFFF
    process.pieces[R_DEBUG] = struct.pack("<QI", 1, half)
    process.pieces[half] = process.pieces[LINKS]
    assert process.found() == []


def test_linked_files_without_program_headers_is_empty() -> None:
    process = Process(LINKED)
    for headers, count in ((0, 3), (process.headers, 0), (1 << 63, 3), ((1 << 64) - 1, 3)):
        assert list(linked_files(process.read, {AT_PHDR: headers, AT_PHNUM: count})) == []
    assert all(address for address, _ in process.requests)
    process.set_headers([(PT_LOAD, 0, 0x4000), (PT_PHDR, HEADERS, 112)])
    assert process.found() == []


def test_linked_files_when_headers_are_truncated() -> None:
    """Complete headers count."""
    process = Process(LINKED)
    process.pieces[process.headers] += b"\2\0\0\0"
    process.count = 4
    assert len(process.found()) == 3
    process.pieces[process.headers] = process.pieces[process.headers][:3 * PROGRAM_HEADER.size - 1]
    assert process.found() == []


def test_linked_files_when_addresses_are_impossible() -> None:
    """Sums wrap around or are negative: `read` has no bytes there."""
    process = Process(LINKED)
    top = (1 << 64) - 1
    for headers in ([(PT_PHDR, top, 0), (PT_DYNAMIC, 0, 48)], [(PT_PHDR, 0, 0), (PT_DYNAMIC, top, 48)],
                    [(PT_PHDR, top, 0), (PT_DYNAMIC, top, 48)]):
        process.set_headers(headers)
        process.found()
    process = Process(LINKED)
    process.set_link(1, top, top)
    assert process.names() == ["", ""]


@pytest.mark.parametrize(("member", "following"), [(0, 0), (2, 0), (2, 1), (2, 2)])
def test_linked_files_when_list_is_cyclic_ends(member: int, following: int) -> None:
    process = Process(LINKED)
    process.set_link(member, NAMES + 0x1000, LINKS + 0x100 * following)
    assert len(process.found()) == member + 1
    assert len(process.requests) == 3 + 2 * (member + 1)


def test_linked_files_when_list_is_truncated() -> None:
    process = Process(LINKED)
    last = LINKS + 0x200
    process.pieces[last] = process.pieces[last][:-1]
    assert process.names() == ["", "/lib/libwork.so.1"]
    del process.pieces[last]
    assert process.names() == ["", "/lib/libwork.so.1"]


def test_linked_files_when_list_is_endless_is_bounded() -> None:
    """Every link is followed by another one, forever."""
    requests = []
    process = Process(LINKED)

    def read(address: int, size: int) -> bytes:
        requests.append(size)
        if address >= LINKS:
            return LINK.pack(0, 0, 0, address + LINK.size)[:size]
        return process.read(address, size)

    found = itertools.islice(linked_files(read, process.auxiliary()), 20_000)
    assert len(list(found)) == 10_000
    assert len(requests) == 3 + 2 * 10_000
    assert max(requests) <= 4096


def test_linked_files_names() -> None:
    """Names that are not text, empty, unterminated, or truncated by the end of memory."""
    process = Process([(b"/lib/\xff\xc3.so", 0, 0), (b"/lib/a b\n\x1b.so", 0, 0), (b"", 0, 0), (b"", 0, 0)])
    del process.pieces[NAMES + 0x2000]
    process.pieces[NAMES + 0x3000] = b"/lib/" + b"x" * 10_000
    raw, plain, missing, endless = process.names()
    assert os.fsencode(raw) == b"/lib/\xff\xc3.so"
    assert plain == "/lib/a b\n\x1b.so"
    assert missing == ""
    assert endless == "/lib/" + "x" * 4091
    process.pieces[NAMES + 0x3000] = b"/lib/cut"
    assert process.names()[-1] == "/lib/cut"


def test_linked_files_when_sizes_are_impossible_is_bounded() -> None:
    """The number of headers, their sizes, and the number of dynamic sections are bounded."""
    process = Process(LINKED)
    process.count = (1 << 64) - 1
    assert len(process.found()) == 3
    process.set_headers([(PT_PHDR, HEADERS, 0), (PT_DYNAMIC, DYNAMIC, (1 << 64) - 1)])
    assert len(process.found()) == 3
    assert max(size for _, size in process.requests) <= 1 << 16

    process = Process(LINKED, tags=((DT_NEEDED, 1),))
    process.set_headers([(PT_DYNAMIC, DYNAMIC + PIE, (1 << 64) - 1)] * 3000)
    assert process.found() == []
    assert len(process.requests) <= 1001
    assert max(size for _, size in process.requests) <= 1 << 16
