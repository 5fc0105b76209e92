"""A made-up core of a process that has the C library of this machine mapped."""

from __future__ import annotations

import ctypes
import random
import struct
from collections.abc import Sequence
from pathlib import Path

import pytest

from gdbext.elf.headers import PF_X, PT_LOAD, find_segments
from gdbext.errors import GdbextError, MemoryUnreadable, NoTarget, ThreadUnavailable
from gdbext.inferior.cache import CachedMemory
from gdbext.inferior.protocol import ThreadRef
from gdbext.model.reasons import because
from gdbext.narrate.reasons import explain
from gdbext.snapshot import take_snapshot
from gdbext.targets.core import CoreTarget
from gdbext.targets.direct_target import LEFT_OUT
from tests.support import fake_core
from tests.support.fake_core import NT_AUXV, NT_FILE, NT_PRPSINFO, NT_PRSTATUS, NT_SIGINFO, R, W, X, note

BASE, STACK = 0x7000_0000_0000, 0x7FFF_0000_0000
PAGE = 4096


def libc() -> Path:
    """The C library that this test runs with."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        path = line.split(maxsplit=5)[-1]
        if path.startswith("/") and "libc.so" in path or "/libc-2" in path:
            return Path(path)
    pytest.skip("this Python has no libc.so")


def function(name: str) -> int:
    """The link-time address of one of its functions."""
    (base,) = [int(line.partition("-")[0], 16) for line in Path("/proc/self/maps").read_text().splitlines()
               if line.endswith(str(libc())) and line.split()[2] == "00000000"][:1]
    address = ctypes.cast(getattr(ctypes.CDLL(None), name), ctypes.c_void_p).value
    assert address is not None
    return address - base


def state(lwp: int, pc: int, sp: int) -> bytes:
    registers = [0] * 27
    registers[16], registers[19] = pc, sp  # arch/x86/include/asm/user_64.h, struct user_regs_struct
    return (bytes(32) + struct.pack("<i", lwp) + bytes(76) + struct.pack("<27Q", *registers)).ljust(336, b"\0")


def write(path: Path, states: Sequence[bytes], header: bytes | None = None, further: bytes = b"") -> Path:
    """A core that has only the first page of the library, and a page of stack."""
    library = libc()
    first = library.read_bytes()[:PAGE] if header is None else header
    files, loads = [], [(R, BASE, PAGE), (R | W, STACK, PAGE)]
    files.append((BASE, BASE + PAGE, 0, bytes(library)))
    with library.open("rb") as file:
        def read(offset: int, size: int) -> bytes:
            file.seek(offset)
            return file.read(size)

        for segment in find_segments(read):
            if segment.kind == PT_LOAD and segment.offset:
                start = BASE + segment.address & -PAGE
                end = BASE + segment.address + segment.file_size + PAGE - 1 & -PAGE
                files.append((start, end, segment.offset // PAGE, bytes(library)))
                loads.append((R | X if segment.flags & PF_X else R, start, 0))
    notes = b"".join(note(NT_PRSTATUS, each) for each in states) + note(NT_FILE, fake_core.mapped(*files)) + further
    data = fake_core.core([(flags, start, size) for flags, start, size in loads], notes)
    # the contents of the first segment, which is the first page
    at = len(data) - 2 * PAGE
    data = data[:at] + first + data[at + PAGE:]
    # segments without contents still have their size in memory
    ends = {start: end for start, end, _, _ in files}
    table = bytearray(data)
    for index in range(len(loads) + 1):
        offset = fake_core.EHDR + fake_core.PHDR * index
        kind, start = struct.unpack_from("<I", table, offset)[0], struct.unpack_from("<Q", table, offset + 16)[0]
        if kind == PT_LOAD and start in ends:
            struct.pack_into("<Q", table, offset + 40, ends[start] - start)
    path.write_bytes(table)
    return path


@pytest.fixture
def target(tmp_path: Path) -> CoreTarget:
    states = [state(71, BASE + function("read"), STACK), state(70, 0x1234, STACK + 64)]
    return CoreTarget(str(write(tmp_path / "core", states)), None, {str(libc()): str(libc())})


def test_modules_are_the_mapped_files_with_their_sections(target: CoreTarget) -> None:
    (module,) = target.modules()
    assert (module.path, module.is_main, module.by_mapping) == (str(libc()), False, False)
    assert module.contains(BASE + function("read"))
    assert module.section(".eh_frame_hdr") is not None
    assert target.file_build_id(module)
    assert target.mapped_files() == [(BASE, str(libc()))]


def test_memory_that_the_core_lacks_is_that_of_the_file(target: CoreTarget) -> None:
    offset = function("read")
    assert target.memory.read(BASE + offset, 32) == ctypes.string_at(
        ctypes.cast(ctypes.CDLL(None).read, ctypes.c_void_p).value or 0, 32)
    with pytest.raises(MemoryUnreadable):
        target.memory.read(BASE - PAGE, 8)


def test_symbol_is_one_of_the_names_of_the_function(target: CoreTarget) -> None:
    name = target.symbol(BASE + function("read") + 4).function
    assert name is not None
    assert name.partition("@")[0].strip("_").replace("GI_", "").replace("libc_", "").strip("_") == "read"
    assert target.symbol(0x1234).function is None


def test_threads_have_the_order_and_the_registers_of_the_core(target: CoreTarget) -> None:
    first, second = target.threads()
    assert (first, second) == (ThreadRef(1, 71, None), ThreadRef(2, 70, None))
    assert target.selected() == 1
    assert target.registers(second, ("rip", "rsp", "xmm0")) == {"rip": 0x1234, "rsp": STACK + 64}
    assert "fs_base" in target.registers(first)


def test_file_that_is_another_one_than_in_the_core_is_not_used(tmp_path: Path) -> None:
    other = bytearray(libc().read_bytes()[:PAGE])
    other[0x400:0x410] = bytes(16)
    path = write(tmp_path / "core", [state(71, 0, STACK)], bytes(other))
    target = CoreTarget(str(path), None, {str(libc()): str(libc())})
    (module,) = target.modules()
    assert module.by_mapping
    assert target.symbol(BASE + function("read")).function is None
    with pytest.raises(MemoryUnreadable):
        target.memory.read(BASE + function("read"), 8)


def test_file_that_is_not_here_is_not_read(tmp_path: Path) -> None:
    target = CoreTarget(str(write(tmp_path / "core", [state(71, 0, STACK)])), None, {})
    assert not target.has_file(str(libc()))
    with pytest.raises(MemoryUnreadable):
        target.memory.read(BASE + function("read"), 8)


def test_unwind_when_the_caller_is_not_known_raises(target: CoreTarget) -> None:
    with pytest.raises(ThreadUnavailable, match="cut short after frame 0: no usable frame description for 0x1234"):
        target.unwind(target.threads()[1], 10)
    assert target.left_out() == {"frames"}


@pytest.mark.parametrize("called", [0, 0x1234, STACK + 0x100])
def test_caller_of_an_address_without_code_is_on_the_stack(called: int, tmp_path: Path) -> None:
    path = write(tmp_path / "core", [state(70, called, STACK + 64)])
    after = BASE + function("read") + 1
    data = bytearray(path.read_bytes())
    struct.pack_into("<Q", data, len(data) - PAGE + 64, after)
    path.write_bytes(data)
    target = CoreTarget(str(path), None, {str(libc()): str(libc())})
    thread = target.threads()[0]
    frames, _ = target._unwind(target._registers(thread), 10)
    assert frames[:2] == [(called, STACK + 64), (after, STACK + 72)]
    assert target.frame_registers(thread, 1)["rip"] == after
    assert target.frame_registers(thread, 0)["rip"] == called


def test_what_only_a_debugger_knows_is_left_out(target: CoreTarget, monkeypatch: pytest.MonkeyPatch) -> None:
    assert target.left_out() == set()
    thread = target.threads()[0]
    monkeypatch.setattr(CachedMemory, "read", lambda self, address, size: b"\x90\xd6".ljust(size, b"\x90"))
    assert target.disassemble(BASE, BASE + 8) == []  # 0xd6 is not an instruction
    monkeypatch.undo()
    assert target.debug_structs(target.modules()[0]) == {}
    assert target.variables(thread, 0) == []
    assert {"instructions", "types"} <= target.left_out() <= {*LEFT_OUT}


def test_all_that_may_be_left_out_has_words() -> None:
    assert explain(because("made-without-gdb", lacks=LEFT_OUT)).count(";") == len(LEFT_OUT) - 1
    assert "gdb-multiarch" in explain(because("made-without-gdb", lacks=LEFT_OUT, processor="aarch64"))


def test_process_and_signal_are_those_of_the_notes(tmp_path: Path) -> None:
    info = struct.pack("<iii4xQ", 11, 0, 1, 0xDEAD).ljust(128, b"\0")
    process = struct.pack("<16xIIi28x80s", 1000, 100, 4711, b"program --option ")
    further = note(NT_SIGINFO, info) + note(NT_PRPSINFO, process) + note(NT_AUXV, struct.pack("<4Q", 33, BASE, 0, 0))
    target = CoreTarget(str(write(tmp_path / "core", [state(71, 0, STACK)], further=further)), None, {})
    signal = target.signal(target.threads()[0])
    assert signal is not None
    assert (signal.number, signal.code, signal.address) == (11, 1, 0xDEAD)
    assert (target.pid, target.origin().command_line) == (4711, "program --option")
    assert target.core_kept() is None


def test_snapshot_of_the_core_has_its_threads(target: CoreTarget) -> None:
    report = take_snapshot(target).judged_report(lambda thread: True)
    assert [thread.lwp for thread in report.threads] == [71, 70]
    assert report.target.kind == "core"


@pytest.mark.parametrize("data", [b"", b"\x7fELF", b"text", bytes(4096)])
def test_file_that_is_no_core_is_refused(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "core"
    path.write_bytes(data)
    with pytest.raises(NoTarget):
        CoreTarget(str(path), None, {})


@pytest.mark.slow
def test_damaged_core_raises_an_error_with_one_line(tmp_path: Path) -> None:
    data = write(tmp_path / "core", [state(71, BASE + function("read"), STACK), state(70, 0, 0)]).read_bytes()
    chosen, path = random.Random(7), tmp_path / "damaged"
    size = len(data) - 2 * PAGE
    errors: list[str] = []
    for _ in range(150):
        damaged = bytearray(data)
        for _ in range(chosen.randrange(1, 20)):
            damaged[chosen.randrange(16, size)] = chosen.choice((0, 255, chosen.randrange(256)))
        path.write_bytes(damaged[:chosen.choice((len(data), chosen.randrange(len(data))))])
        try:
            take_snapshot(CoreTarget(str(path), None, {str(libc()): str(libc())})).judged_report(lambda thread: True)
        except GdbextError as error:
            errors.append(str(error))
    assert errors
    assert not any("\n" in error for error in errors)
