"""Cores and their files, made up byte by byte: what is found, what is not, and that nothing leads astray."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import lzma
import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest

from gdbext.elf.core_contents import CoreContents
from gdbext.elf.core_file import parse_core
from gdbext.elf.headers import Read, opened_file
from gdbext.launcher.snapshots.cores import is_core, prepare_core
from gdbext.launcher.snapshots.elf import build_id_of, is_debug_file
from gdbext.launcher.snapshots.limit import Limit, TooSlow
from gdbext.launcher.snapshots.options import Options, Target
from gdbext.launcher.snapshots.preparation import Preparation
from gdbext.launcher.snapshots.snapshot import take_snapshot
from gdbext.launcher.status import Unreadable

HEADER, PROGRAM = struct.Struct("<4sBBBB8xHHIQQQIHHHHHH"), struct.Struct("<IIQQQQQQ")
ET_DYN, ET_CORE, PT_LOAD, PT_NOTE = 3, 4, 1, 4
PAGE = 0x1000
APP, LIBRARY = "/opt/app/server", "/opt/app/lib/libwork.so.1.2"


def note(name: bytes, kind: int, data: bytes) -> bytes:
    def padded(text: bytes) -> bytes:
        return text + b"\0" * (-len(text) % 4)

    return struct.pack("<III", len(name) + 1, len(data), kind) + padded(name + b"\0") + padded(data)


def elf(kind: int, segments: list[tuple[int, int, bytes]]) -> bytes:
    """An ELF file of segments: type, address, content."""
    offset = HEADER.size + PROGRAM.size * len(segments)
    table, data = b"", b""
    for segment, address, content in segments:
        table += PROGRAM.pack(segment, 5, offset + len(data), address, address, len(content), len(content), 1)
        data += content
    return HEADER.pack(b"\x7fELF", 2, 1, 1, 0, kind, 62, 1, 0, HEADER.size, 0, 0, HEADER.size, PROGRAM.size,
                       len(segments), 64, 0, 0) + table + data


def program(build_id: bytes) -> bytes:
    """An executable or library with a build id."""
    at = HEADER.size + 2 * PROGRAM.size
    data = elf(ET_DYN, [(PT_NOTE, at, note(b"GNU", 3, build_id)), (PT_LOAD, 0, b"code")])
    # the file is loaded from its beginning
    load = PROGRAM.pack(PT_LOAD, 5, 0, 0, 0, len(data), len(data), PAGE)
    return data[:at - PROGRAM.size] + load + data[at:]


def core(*, with_files: bool = True, names: tuple[str, str] = (APP, LIBRARY)) -> bytes:
    """A core of two files."""
    auxv = struct.pack("<QQQQ", 3, 0x10000 + HEADER.size, 31, 0x30000)
    rows = [(0x10000, 0x11000, 0), (0x20000, 0x21000, 0)]
    files = struct.pack("<QQ", len(rows), PAGE) + b"".join(struct.pack("<QQQ", *row) for row in rows)
    files += b"".join(name.encode() + b"\0" for name in names)
    notes = note(b"CORE", 6, auxv) + (note(b"CORE", 0x46494c45, files) if with_files else b"")
    return elf(ET_CORE, [(PT_NOTE, 0, notes), (PT_LOAD, 0x10000, program(b"A" * 20)),
                         (PT_LOAD, 0x20000, program(b"L" * 20)), (PT_LOAD, 0x30000, b"./server\0")])


@dataclass
class Place:
    """A folder that stands for the root of a machine."""

    root: Path

    def put(self, name: str, data: bytes) -> Path:
        path = self.root / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return path

    @contextlib.contextmanager
    def prepared(self, data: bytes, executable: Path | None = None, *search: Path) -> Iterator[Preparation]:
        with prepare_core(self.put("core", data), executable, self.root, search, Limit(60)) as preparation:
            yield preparation


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "image")


def sysroot(preparation: Preparation) -> Path:
    (found,) = (command for command in preparation.settings if command.startswith("set sysroot "))
    return Path(found.partition("set sysroot ")[2])


def contents_of(read: Read) -> CoreContents:
    return CoreContents(read, parse_core(read, 1 << 30))


def test_core_contents_have_files_and_executable(tmp_path: Path) -> None:
    path = tmp_path / "core"
    path.write_bytes(core())
    with path.open("rb") as file:
        found = contents_of(opened_file(file))
        assert found.executable == APP
        assert found.command == "./server"
        assert [(mapped.start, mapped.path, mapped.build_id) for mapped in found.files] == [
            (0x10000, APP, "41" * 20), (0x20000, LIBRARY, "4c" * 20)]
        assert found.read(0x30000, 100) == b"./server\0"
        assert found.read(0x5, 4) == b""


@pytest.mark.parametrize(("machine", "name"), [(243, "riscv"), (22, "s390x"), (9999, "number 9999 of ELF")])
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_core_of_another_processor_is_refused_with_its_name(machine: int, name: str, pack: Callable[[bytes], bytes],
                                                            place: Place) -> None:
    data = core()[:18] + struct.pack("<H", machine) + core()[20:]
    with pytest.raises(Unreadable, match=f"core: the processor is {name}$") as error, place.prepared(pack(data)):
        pass
    assert error.value.hint == "only x86-64 and arm64 are decoded"


@pytest.mark.parametrize("damage", ["count", "too many", "no names", "cut off"])
def test_damaged_list_of_mapped_files(damage: str, place: Place) -> None:
    """What else the core has is used, and no build id of its files can be checked."""
    place.put(APP, program(b"A" * 20))
    data = core()
    at = data.index(struct.pack("<I", 0x46494C45)) + 4 + 8
    if damage == "cut off":
        data = data[:at - 16] + struct.pack("<I", 8) + data[at - 12:]  # the size in its header
    else:
        count = {"count": 1 << 40, "too many": 100_000, "no names": 1 << 63}[damage]
        data = data[:at] + struct.pack("<Q", count) + data[at + 8:]
    with place.prepared(data) as preparation:
        assert any("list of mapped files is damaged" in note for note in preparation.notes)
    path = place.put("again", data)
    with path.open("rb") as file:
        found = contents_of(opened_file(file))
        assert (found.files, found.executable, found.command) == ([], "./server", "./server")


def test_impossible_file_names_are_ignored(place: Place) -> None:
    with place.prepared(core(names=("/" + "a" * 5000, "/\xff" * 300))) as preparation:
        assert preparation.executable is None
        assert all(len(note) < 2000 for note in preparation.notes)


def test_files_at_their_paths_are_used(place: Place) -> None:
    app = place.put(APP, program(b"A" * 20))
    place.put(LIBRARY, program(b"L" * 20))
    with place.prepared(core()) as preparation:
        assert preparation.executable == str(app)
        assert sysroot(preparation) == place.root
        assert preparation.notes == ()
        assert not preparation.temporary
        assert preparation.core is not None
        assert Path(preparation.core).read_bytes() == core()


def test_files_found_by_build_id_and_by_name(place: Place, tmp_path: Path) -> None:
    elsewhere = Place(tmp_path / "else where")
    app = elsewhere.put("a/b/renamed", program(b"A" * 20))
    library = elsewhere.put("libwork.so.1.2", program(b"L" * 20))
    elsewhere.put("x/libwork.so.1.2", program(b"other"))
    with place.prepared(core(), None, elsewhere.root) as preparation:
        assert preparation.executable == str(app)
        assert (sysroot(preparation) / LIBRARY[1:]).samefile(library)
        assert preparation.notes == ()
        assert preparation.temporary
        tree = sysroot(preparation)
    assert not tree.exists(), "removed in the end"


def test_files_with_other_build_ids_are_not_used(place: Place) -> None:
    place.put(APP, program(b"B" * 20))
    place.put(LIBRARY, program(b"M" * 20))
    with place.prepared(core()) as preparation:
        assert preparation.executable is None
        assert not (sysroot(preparation) / LIBRARY[1:]).exists()
        text = "\n".join(preparation.notes)
    for path, wanted, has in ((APP, "41", "42"), (LIBRARY, "4c", "4d")):
        assert f"{path} has build id {wanted * 20} in the core, and {place.root}{path} has build id {has * 20}" in text


def test_missing_files_are_noted(place: Place) -> None:
    with place.prepared(core()) as preparation:
        assert preparation.executable is None
        first, second = preparation.notes
    assert first.startswith(f"the executable {APP} (build id {'41' * 20}) was not found")
    assert second.startswith("not found: libwork.so.1.2; name a folder")


def test_named_executable_is_used(place: Place, tmp_path: Path) -> None:
    place.put(LIBRARY, program(b"L" * 20))
    given = tmp_path / "given"
    given.write_bytes(program(b"G" * 20))
    with place.prepared(core(), given) as preparation:
        assert preparation.executable == str(given)
        (line,) = preparation.notes
    assert "41" * 20 in line
    assert "47" * 20 in line


def test_links_of_an_image_are_followed_inside_it(place: Place) -> None:
    """An absolute one would lead to this machine's file of that name."""
    library = place.put("/real/libwork.so.1.2", program(b"L" * 20))
    place.put(APP, program(b"A" * 20))
    link = place.root / LIBRARY[1:]
    link.parent.mkdir()
    link.symlink_to("/real/libwork.so.1.2")
    with place.prepared(core()) as preparation:
        assert (sysroot(preparation) / LIBRARY[1:]).samefile(library)


@pytest.mark.parametrize("name", ["/../../../../../../../tmp/gdbext-escaped.so", "/a/../../../gdbext-escaped.so", "/"])
def test_names_do_not_lead_out_of_the_tree(name: str, place: Place, tmp_path: Path) -> None:
    elsewhere = Place(tmp_path / "elsewhere")
    library = elsewhere.put("lib", program(b"L" * 20))
    elsewhere.put("app", program(b"A" * 20))
    before = set(Path("/tmp").glob("gdbext-escaped*"))
    with place.prepared(core(names=(APP, name)), None, elsewhere.root) as preparation:
        tree = sysroot(preparation)
        assert all(tree in path.parents for path in tree.rglob("*") if path.is_symlink())
        assert name == "/" or [path for path in tree.rglob("*.so") if path.samefile(library)]
    assert set(Path("/tmp").glob("gdbext-escaped*")) == before


def test_script_is_run_by_its_interpreter(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without NT_FILE there is only the name that was executed."""
    (tmp_path / "server").write_text("#! /usr/bin/env  interpreter\n")
    interpreter = tmp_path / "bin" / "interpreter"
    interpreter.parent.mkdir()
    interpreter.write_text("")
    interpreter.chmod(0o755)
    monkeypatch.setenv("PATH", str(interpreter.parent))
    monkeypatch.chdir(tmp_path)
    path = place.put("core", core(with_files=False))
    with prepare_core(path, None, None, (), Limit(60)) as preparation:
        assert preparation.executable == str(interpreter)


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, bz2.compress])
def test_packed_core_is_unpacked(pack: Callable[[bytes], bytes], place: Place, monkeypatch: pytest.MonkeyPatch,
                                 tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = set(tmp_path.iterdir())
    data = core() + bytes(3 << 20)
    with place.prepared(pack(data)) as preparation:
        assert preparation.core is not None
        assert Path(preparation.core).read_bytes() == data
        assert Path(preparation.core).stat().st_mtime_ns == (place.root / "core").stat().st_mtime_ns
        assert {path for path in tmp_path.iterdir() if path.is_file()} == before, "it has no name"
    assert is_core(place.root / "core")


@pytest.mark.parametrize("name", ["zstd", "lz4"])
def test_core_is_unpacked_by_a_program(name: str, place: Place, tmp_path: Path,
                                       monkeypatch: pytest.MonkeyPatch) -> None:
    magic = {"zstd": b"\x28\xb5\x2f\xfd", "lz4": b"\x04\x22\x4d\x18"}[name]
    (tmp_path / "content").write_bytes(core())
    tool = tmp_path / "bin" / name
    tool.parent.mkdir()
    tool.write_text(f'#!/bin/sh\n[ "$1" = -dc ] && exec cat {tmp_path}/content\n')
    tool.chmod(0o755)
    monkeypatch.setattr("gdbext.launcher.snapshots.cores._PACKED", ((magic, "", name),))
    monkeypatch.setenv("PATH", f"{tool.parent}:{os.environ['PATH']}")
    with place.prepared(magic + b"...") as preparation:
        assert preparation.core is not None
        assert Path(preparation.core).read_bytes() == core()
    monkeypatch.setattr(shutil, "which", lambda program: None)
    with pytest.raises(Unreadable, match=f"packed by {name}, which is not installed"), place.prepared(magic):
        pass


#: 2 GiB of zeros in 2 MiB.
ZEROS = gzip.compress(bytes(1 << 20)) * 2048


@pytest.mark.parametrize("packed", [
    gzip.compress(core()) + ZEROS, bz2.compress(core()) + bz2.compress(bytes(1 << 20)) * 2048,
    gzip.compress(b"") * 500_000,
], ids=["gzip", "bzip2", "empty members"])
def test_unpacking_ends_with_the_time_limit(packed: bytes, place: Place) -> None:
    path = place.put("core", packed)
    with pytest.raises(TooSlow, match=f"{path} was not unpacked within 0.1 s"), prepare_core(
            path, None, None, (), Limit(0.1)):
        pass


def test_program_that_unpacks_ends_with_the_time_limit(place: Place, tmp_path: Path,
                                                       monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "lz4"
    tool.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 1000\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr("gdbext.launcher.snapshots.cores._PEEKING", 1.0)
    path = place.put("core", b"\x04\x22\x4d\x18")
    with pytest.raises(TooSlow, match="was not unpacked within 1 s"), prepare_core(path, None, None, (), Limit(1.0)):
        pass
    assert not os.path.exists(f"/proc/{(tmp_path / 'pid').read_text().strip()}")
    assert not is_core(path)


def test_unpacking_and_copying_leave_room_for_others(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fstatvfs", lambda file: SimpleNamespace(f_blocks=4 << 20, f_bavail=250_000, f_frsize=4096))
    with pytest.raises(Unreadable, match="cannot be unpacked: less than 1,024 MiB would remain free") as raised, (
            place.prepared(gzip.compress(core()))):
        pass
    assert raised.value.hint.startswith("make room in ")


def test_time_limit_of_a_snapshot_counts_unpacking(place: Place) -> None:
    seen = take_snapshot(Target(core=place.put("core", gzip.compress(core()) + ZEROS)),
                         Options(timeout=0.1, without_gdb=True))
    assert (seen.status, seen.problem) == (3, f"{place.root}/core was not unpacked within 0.1 s")


def test_time_limit_counts_waiting_for_standard_input() -> None:
    with subprocess.Popen([sys.executable, "-m", "gdbext", "report", "-", "--no-gdb", "--timeout", "0.5"],
                          stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.wait(60) == 3
        assert process.stderr is not None
        assert process.stderr.read() == ("gdbext report: standard input was not copied within 0.5 s; "
                                         "give more time: --timeout SECONDS\n")


def test_truncated_packed_core_is_read_in_part(place: Place) -> None:
    """The part that is there is read."""
    packed = gzip.compress(core() + os.urandom(1 << 21), 1)
    with place.prepared(packed[:len(packed) // 2]) as preparation:
        assert preparation.core is not None
        assert Path(preparation.core).read_bytes().startswith(core())
        assert "is truncated" in preparation.notes[0]


@pytest.mark.parametrize(("data", "why"), [
    (b"", "is empty"), (b"text", "is not a core: it is not an ELF file"),
    (program(b"A"), "is not a core: it is an executable"),
    (core()[:70], "its headers cannot be read"), (core()[:40], "its headers cannot be read"),
    (core().replace(b"\x7fELF\2", b"\x7fELF\1", 1), "not an ELF file for a 64-bit little-endian machine"),
    (gzip.compress(b"text"), "is not a core"),
], ids=["empty", "text", "program", "cut", "header cut", "32 bits", "packed text"])
def test_file_that_is_not_a_core_is_refused(data: bytes, why: str, place: Place) -> None:
    with pytest.raises(Unreadable, match=why), place.prepared(data):
        pass


@pytest.mark.parametrize("kept", [288, 300, 467])
def test_core_truncated_in_its_notes_is_refused(kept: int, place: Place) -> None:
    """The registers of the threads are there, and GDB takes no core without them."""
    data = core()
    text = f"/core is truncated: {kept} of {len(data)} bytes are there, without the threads' registers"
    with pytest.raises(Unreadable, match=text) as raised, place.prepared(data[:kept]):
        pass
    assert "ulimit -c" in raised.value.hint


def test_damaged_note_of_files_is_ignored(place: Place) -> None:
    """More files than there is room for: none of them is believed, and what was executed is known by its name."""
    data = core()
    at = data.index(struct.pack("<QQ", 2, PAGE))
    path = place.put("core", data[:at] + struct.pack("<Q", 1 << 40) + data[at + 8:])
    with path.open("rb") as file:
        found = contents_of(opened_file(file))
        assert (found.files, found.executable) == ([], "./server")


@pytest.mark.parametrize("at", range(0, len(core()), 41))
def test_damaged_core_is_refused_or_read(at: int, place: Place) -> None:
    """It is refused, or what is there is taken; nothing else happens."""
    data = bytearray(core())
    data[at] ^= 0xff
    with contextlib.suppress(Unreadable), place.prepared(bytes(data)):
        pass


def test_build_id_of_other_files_is_none(tmp_path: Path) -> None:
    assert build_id_of(tmp_path / "nothing") is None
    assert build_id_of(tmp_path) is None
    (tmp_path / "text").write_text("text")
    assert build_id_of(tmp_path / "text") is None
    assert not is_debug_file(tmp_path / "text")
