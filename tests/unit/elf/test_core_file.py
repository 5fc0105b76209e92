from __future__ import annotations

import os
import random
import struct
import time
from pathlib import Path

import pytest

from gdbext.arch.x86_64 import core_registers
from gdbext.elf import core_file
from gdbext.elf.core_file import CoreFile, read_core_file
from gdbext.inferior.address_space import Region
from tests.support.fake_core import (
    EHDR,
    ET_EXEC,
    NT_FILE,
    NT_PRPSINFO,
    NT_PRSTATUS,
    NT_SIGINFO,
    PHDR,
    PT_LOAD,
    PT_NOTE,
    SHDR,
    R,
    W,
    X,
    core,
    header,
    mapped,
    note,
    process_information,
    segment,
    state,
)


def kept(start: int, end: int, permissions: str, path: str | None = None, offset: int = 0) -> Region:
    """A region with all contents in the core."""
    return Region(start, end, permissions, path, offset, kept=end)


def left_out(start: int, end: int, path: str, offset: int = 0) -> Region:
    """A file's mapping without a segment."""
    return Region(start, end, None, path, offset, kept=start)


def read(tmp_path: Path, data: bytes) -> CoreFile | None:
    path = tmp_path / "core"
    path.write_bytes(data)
    return read_core_file(str(path))


def test_regions_match_the_segments(tmp_path: Path) -> None:
    data = core([(R | W, 0x7000, 0x1000), (R | X, 0x1000, 0x2000), (0, 0x5000, 0), (R, 0x9000, 16)])
    found = read(tmp_path, data)
    assert found is not None
    assert found.regions == (kept(0x1000, 0x3000, "rx"), kept(0x5000, 0x5000, ""), kept(0x7000, 0x8000, "rw"),
                             kept(0x9000, 0x9010, "r"))
    assert (found.size, found.whole, found.missing) == (len(data), len(data), 0)


def test_regions_include_mapped_files(tmp_path: Path) -> None:
    files = mapped((0x1000, 0x3000, 2, b"/lib/libx.so"), (0x8000, 0x9000, 0, "/data/é".encode()))
    notes = note(NT_PRSTATUS, bytes(33)) + note(NT_FILE, files) + note(NT_PRSTATUS, bytes(5), b"")
    found = read(tmp_path, core([(R | X, 0x1000, 0x1000), (R | W, 0x4000, 0x1000)], notes))
    assert found is not None
    # the second has no segment: the kernel leaves out memory with the contents of the file
    assert found.regions == (kept(0x1000, 0x2000, "rx", "/lib/libx.so", 0x2000), kept(0x4000, 0x5000, "rw"),
                             left_out(0x8000, 0x9000, "/data/é"))
    assert found.regions[2].allows("w") is None


def test_states_have_the_registers_of_threads(tmp_path: Path) -> None:
    notes = b"".join([
        note(NT_PRSTATUS, state(7, 1 << 63)), note(NT_PRSTATUS, state(8, 100)),
        note(NT_PRSTATUS, state(9, 0)), note(NT_PRSTATUS, state(9, 1)),  # two threads with the number 9
        note(NT_PRSTATUS, state(10, 0, 340)), note(NT_PRSTATUS, state(11, 0), b"LINUX\0"), note(6, state(12, 0)),
    ])
    found = read(tmp_path, core([(R, 0x1000, 16)], notes))
    assert found is not None
    assert {*found.by_lwp} == {7, 8, 10}
    registers = core_registers(found.by_lwp[8].state)
    # arch/x86/include/asm/user_64.h, struct user_regs_struct
    assert [registers[name] for name in ("r15", "rbp", "rax", "orig_rax", "rip", "rsp", "fs_base", "gs")] == [
        100, 104, 110, 115, 116, 119, 121, 126]
    assert core_registers(found.by_lwp[7].state)["r15"] == 1 << 63
    assert core_registers(found.by_lwp[10].state) == {}


def test_threads_have_their_order_and_the_signals_that_follow_them(tmp_path: Path) -> None:
    first, last = bytes(range(128)), bytes(128)
    notes = b"".join([
        note(NT_SIGINFO, last), note(NT_PRSTATUS, state(8, 0)), note(NT_SIGINFO, first),
        note(NT_PRSTATUS, state(7, 1)), note(NT_SIGINFO, b"too short"), note(NT_PRSTATUS, state(7, 2)),
        note(NT_SIGINFO, last)])
    found = read(tmp_path, core([(R, 0x1000, 16)], notes))
    assert found is not None
    assert [(thread.lwp, thread.siginfo) for thread in found.threads] == [(8, first), (7, None), (7, last)]
    assert [core_registers(thread.state)["r15"] for thread in found.threads] == [0, 1, 2]
    assert {*found.by_lwp} == {8}


def test_states_have_the_machine_of_the_core(tmp_path: Path) -> None:
    data = core([(R, 0x1000, 16)], note(NT_PRSTATUS, state(7, 0)))
    found = read(tmp_path, data[:18] + struct.pack("<H", 183) + data[20:])
    assert found is not None
    assert found.machine == 183


def test_mapped_file_names_when_not_text_are_escaped(tmp_path: Path) -> None:
    found = read(tmp_path, core([(R, 0x1000, 16)], note(NT_FILE, mapped((0x1000, 0x2000, 0, b"/a\xff\n")))))
    assert found is not None
    assert os.fsencode(found.regions[0].path or "") == b"/a\xff\n"


def test_regions_when_segment_is_partly_saved(tmp_path: Path) -> None:
    """The kernel leaves out memory with the contents of files, and memory that a program excluded."""
    table = segment(PT_LOAD, R | X, 0x1000, 0x10000, 0x1000, 0x4000) + segment(PT_LOAD, R, 0x2000, 0x20000, 0, 0x1000)
    data = (header(2) + table).ljust(0x2000, b"\0")
    found = read(tmp_path, data)
    assert found is not None
    assert found.regions == (Region(0x10000, 0x14000, "rx", None, kept=0x11000),
                             Region(0x20000, 0x21000, "r", None, kept=0x20000))
    assert found.missing == 0
    cut = read(tmp_path, data[:0x1800])
    assert cut is not None
    assert cut.missing == 0x800
    assert [region.kept for region in cut.regions] == [0x10800, 0x20000]
    none = read(tmp_path, data[:0x800])
    assert none is not None
    assert [region.kept for region in none.regions] == [0x10000, 0x20000]


@pytest.mark.parametrize("missing", [1, 100, 0x1000, 0x1FFF])
def test_missing_when_core_is_truncated(tmp_path: Path, missing: int) -> None:
    whole = core([(R | W, 0x1000, 0x1000), (R | W, 0x4000, 0x1000)])
    found = read(tmp_path, whole[:-missing])
    assert found is not None
    assert found.missing == missing
    assert len(found.regions) == 2


def test_core_file_when_headers_are_truncated(tmp_path: Path) -> None:
    data = core([(R | W, 0x1000 * i, 0x1000) for i in range(1, 5)])
    for size in range(EHDR, EHDR + 5 * PHDR):
        found = read(tmp_path, data[:size])
        assert found is not None
        assert len(found.regions) == max((size - EHDR) // PHDR - 1, 0)
        assert found.missing > 0


def test_regions_of_more_than_65534_segments(tmp_path: Path) -> None:
    """If there are more than 65534 segments, a section header has the number."""
    count = 70_000
    table = b"".join(segment(PT_LOAD, R, 0, 0x1000 * i, 0, 0x1000) for i in range(count))
    section = bytes(44) + struct.pack("<I", count) + bytes(SHDR - 48)
    data = header(0xFFFF, sections=EHDR + SHDR, headers=EHDR + 2 * SHDR, section_size=SHDR) + bytes(SHDR) + section
    found = read(tmp_path, data + table)
    assert found is not None
    assert len(found.regions) == count
    assert found.missing == 0
    assert read(tmp_path, data[:EHDR + SHDR + 20]) is None


@pytest.mark.parametrize("data", [
    b"", b"\x7fELF", header(0)[:-1], b"#!/bin/sh\n" + bytes(100), header(0, ET_EXEC), header(0, elf_class=1),
    header(0, data=2), header(0, entry=32), header(1, entry=0),
], ids=["empty", "begin of a header", "less than a header", "text", "executable", "32 bits", "big-endian",
        "program headers of 32 bits", "program headers without size"])
def test_read_core_file_when_not_a_core_is_none(tmp_path: Path, data: bytes) -> None:
    assert read(tmp_path, data) is None


def test_read_core_file_when_not_a_regular_file_is_none(tmp_path: Path) -> None:
    assert read_core_file(str(tmp_path / "nothing")) is None
    assert read_core_file(str(tmp_path)) is None
    assert read_core_file("a\0b") is None
    assert read_core_file("/dev/zero") is None


def test_read_core_file_of_a_pipe_does_not_block(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    start = time.process_time()
    assert read_core_file(str(path)) is None
    assert time.process_time() - start < 1


@pytest.mark.parametrize("files", [
    mapped((0x1000, 0x2000, 0, b"/a"), count=1 << 63), mapped((0x1000, 0x2000, 0, b"/a"), count=2)[:40], b"", bytes(15),
    mapped(count=1),
], ids=["more than there are", "cut off", "empty", "less than its head", "none where there should be one"])
def test_mapped_files_when_note_is_inconsistent_are_left_out(tmp_path: Path, files: bytes) -> None:
    found = read(tmp_path, core([(R, 0x1000, 16)], note(NT_FILE, files)))
    assert found is not None
    assert found.regions == (kept(0x1000, 0x1010, "r"),)


@pytest.mark.parametrize("head", [
    struct.pack("<III", 0xFFFFFFFF, 0xFFFFFFFF, NT_FILE), struct.pack("<III", 5, 0xFFFFFFFF, NT_FILE) + b"CORE\0\0\0\0",
])
def test_notes_with_impossible_sizes_are_ignored(tmp_path: Path, head: bytes) -> None:
    found = read(tmp_path, core([(R, 0x1000, 16)], head + bytes(64)))
    assert found is not None
    assert found.regions == (kept(0x1000, 0x1010, "r"),)


def test_mapped_files_when_names_are_missing(tmp_path: Path) -> None:
    files = struct.pack("<QQ", 2, 4096) + struct.pack("<6Q", 0x1000, 0x2000, 0, 0x5000, 0x6000, 0) + b"/a\0"
    found = read(tmp_path, core([(R, 0x1000, 16)], note(NT_FILE, files)))
    assert found is not None
    assert found.regions[0].path == "/a"


@pytest.mark.parametrize(("offset", "start", "size"), [
    (0, (1 << 64) - 0x1000, 0x2000), (1 << 63, 0x1000, 0x1000), ((1 << 64) - 1, 0x1000, (1 << 64) - 1)])
@pytest.mark.parametrize("kind", [PT_LOAD, PT_NOTE])
def test_regions_when_segment_is_impossible(tmp_path: Path, kind: int, offset: int, start: int, size: int) -> None:
    table = segment(PT_LOAD, R, 0, 0x500000, 0, 0x1000) + segment(kind, R, offset, start, size, size)
    found = read(tmp_path, header(2) + table)
    assert found is None or all(0 <= region.start <= region.end <= 1 << 64 for region in found.regions)


@pytest.mark.parametrize("headers", [1 << 40, 1 << 63, (1 << 64) - 1])
def test_core_file_when_headers_are_outside_the_file(tmp_path: Path, headers: int) -> None:
    found = read(tmp_path, header(3, headers=headers))
    assert found is None or (found.regions == () and found.missing > 0)
    assert read(tmp_path, header(0xFFFF, sections=headers, section_size=SHDR)) is None


def test_number_of_segments_is_bounded(tmp_path: Path) -> None:
    section = bytes(44) + struct.pack("<I", 0xFFFFFFFF) + bytes(SHDR - 48)
    data = header(0xFFFF, sections=EHDR, headers=EHDR + SHDR, section_size=SHDR) + section
    found = read(tmp_path, data + segment(PT_LOAD, R, 0, 0x1000, 0, 0x1000))
    assert found is not None
    assert len(found.regions) == 1
    assert found.whole < 1 << 30


def test_total_size_of_notes_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many segments may have the same bytes."""
    monkeypatch.setattr(core_file, "MAX_NOTES", 1 << 16)
    notes = note(NT_FILE, mapped((0x1000, 0x2000, 0, b"/a")))
    count = 20_000
    at = EHDR + PHDR * count
    filler = bytes((1 << 15) - len(notes))
    data = header(count) + segment(PT_NOTE, 0, at, 0, 1 << 15, 0) * count + notes + filler
    start = time.process_time()
    found = read(tmp_path, data)
    assert found is not None
    assert found.regions == (left_out(0x1000, 0x2000, "/a"),)
    assert time.process_time() - start < 2


@pytest.mark.parametrize("seed", range(200))
def test_read_core_file_when_damaged_raises_nothing(tmp_path: Path, seed: int) -> None:
    chooser = random.Random(seed)
    files = mapped((0x1000, 0x3000, 2, b"/lib/libx.so"), (0x8000, 0x9000, 0, b"/data"))
    data = bytearray(core([(R | X, 0x1000, 64), (R | W, 0x4000, 64)], note(NT_FILE, files)))
    for _ in range(chooser.randrange(1, 8)):
        data[chooser.randrange(4, len(data))] = chooser.choice((0, 1, 0x7F, 0x80, 0xFF, chooser.randrange(256)))
    found = read(tmp_path, bytes(data))
    assert found is None or found.missing >= 0


# -- user and group ------------------------------------------------------------------------------------------

@pytest.mark.parametrize(("notes", "expected"), [
    (process_information(1000, 100), (1000, 100)), (process_information(0, 0), (0, 0)), (b"", (None, 0)),
    (process_information(1000, 100) * 2, (1000, 100)),
    (process_information(1000, 100) + process_information(0, 0), (None, 0)),
    (note(NT_PRPSINFO, bytes(80)), (None, 0)),
], ids=["user", "root", "none", "twice", "two users", "of another size"])
def test_user_of_the_process(tmp_path: Path, notes: bytes, expected: tuple[int | None, int]) -> None:
    path = tmp_path / "core"
    path.write_bytes(core([], notes))
    found = read_core_file(str(path))
    assert found is not None
    assert (found.user, found.group) == expected
    assert found.owner == os.geteuid()
