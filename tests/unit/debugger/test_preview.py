"""The code that a process's threads execute, by a fake directory tree of /proc."""

from __future__ import annotations

import os
import shutil
import struct
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest

from gdbext.debugger.preview import Preview
from gdbext.elf.link_map import LinkedFile

PROGRAM, WORK, ANONYMOUS, STACK, STACK_END, VDSO = 0x1_0000, 0x10_0000, 0x20_0000, 0x30_0000, 0x31_0000, 0x40_0000
#: Start and end of the files' code.
PROGRAM_CODE, WORK_CODE, WORK_END = PROGRAM + 0x1000, WORK + 0x1000, WORK + 0x3000
MAPS = f"""\
{PROGRAM:08x}-{PROGRAM_CODE:08x} r--p 00000000 fe:01 11                         /opt/program
{PROGRAM_CODE:08x}-{PROGRAM + 0x2000:08x} r-xp 00001000 fe:01 11                         /opt/program
{PROGRAM + 0x2000:08x}-{PROGRAM + 0x4000:08x} rw-p 00002000 fe:01 11                         /opt/program
{WORK:08x}-{WORK_CODE:08x} r--p 00000000 fe:01 12                         /lib/my libwork.so.1
{WORK_CODE:08x}-{WORK_END:08x} r-xp 00001000 fe:01 12                         /lib/my libwork.so.1
{WORK_END:08x}-{WORK_END + 0x1000:08x} rw-p 00003000 fe:01 12                         /lib/my libwork.so.1
{ANONYMOUS:08x}-{ANONYMOUS + 0x2000:08x} rwxp 00000000 00:00 0
{STACK:08x}-{STACK_END:08x} rw-p 00000000 00:00 0                          [stack]
{VDSO:08x}-{VDSO + 0x2000:08x} r-xp 00000000 00:00 0                          [vdso]
"""
IN_PROGRAM, IN_WORK = PROGRAM_CODE + 0x10, WORK_CODE + 0x20


class Process:
    """Process 100 in a fake /proc."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root / "100"
        (self.folder / "task").mkdir(parents=True)
        (self.folder / "maps").write_text(MAPS)
        (self.folder / "mem").touch()
        # a sparse file with the size of the address space
        os.truncate(self.folder / "mem", VDSO + 0x2000)

    def store(self, address: int, *words: int) -> None:
        """Write words to memory."""
        with open(self.folder / "mem", "r+b") as file:
            file.seek(address)
            file.write(struct.pack(f"<{len(words)}Q", *words))

    def thread(self, number: int, text: str | bytes) -> None:
        """Add a thread whose file `syscall` has this text."""
        (self.folder / "task" / str(number)).mkdir()
        (self.folder / "task" / str(number) / "syscall").write_bytes(text.encode() if isinstance(text, str) else text)

    def sleeper(self, number: int, sp: int, pc: int) -> None:
        """Add a thread in a futex call."""
        self.thread(number, f"202 0x7f01 0x189 0x0 0x0 0x0 0xffffffff {sp:#x} {pc:#x}\n")

    def auxiliary(self, values: Mapping[int, int]) -> None:
        """Write the auxiliary vector."""
        (self.folder / "auxv").write_bytes(b"".join(struct.pack("=QQ", *pair) for pair in {**values, 0: 0}.items()))

    def preview(self) -> Preview:
        return Preview(100, str(self.root))

    def found(self) -> Counter[int]:
        return self.preview().code_addresses()


@pytest.fixture
def process(tmp_path: Path) -> Process:
    return Process(tmp_path)


def test_code_addresses_of_a_sleeping_thread(process: Process) -> None:
    process.sleeper(100, STACK + 0x100, IN_WORK)
    process.store(STACK + 0xF8, WORK_CODE)  # below the stack pointer
    process.store(STACK + 0x100, 0, IN_PROGRAM, 12345, WORK_CODE + 0x80)
    assert process.found() == {IN_WORK: 1, IN_PROGRAM: 1, WORK_CODE + 0x80: 1}


def test_code_addresses_of_threads_outside_system_calls(process: Process) -> None:
    """One thread runs; the other is blocked, for example in a page fault, and has known registers."""
    process.store(STACK, IN_PROGRAM)
    process.thread(100, "running\n")
    assert process.found() == {}
    process.thread(101, f"-1 {STACK:#x} {IN_WORK:#x}\n")
    assert process.found() == {IN_WORK: 1, IN_PROGRAM: 1}


@pytest.mark.parametrize("text", ["", "\n", "202", "what is this", "202 0x1 0x2 zz", f"-1 {IN_WORK:#x} pc",
                                  b"\xff \xfe\0", f"0 -{STACK:x} -{IN_WORK:x}",
                                  "0 " + "f" * 5000 + " " + "f" * 5000, "x" * (1 << 17)])
def test_code_addresses_when_syscall_file_is_malformed(text: str | bytes, process: Process) -> None:
    process.thread(100, text)
    process.sleeper(101, STACK, IN_WORK)
    assert process.found() == {IN_WORK: 1}, "the other thread is found all the same"


def test_preview_when_files_are_unreadable_is_empty(process: Process) -> None:
    process.auxiliary({3: PROGRAM, 5: 2})
    process.store(STACK, IN_PROGRAM)
    process.sleeper(100, STACK, IN_WORK)
    process.sleeper(101, STACK, IN_WORK)
    (process.folder / "task" / "101" / "syscall").unlink()  # the thread has ended
    assert process.found() == {IN_WORK: 1, IN_PROGRAM: 1}
    (process.folder / "mem").unlink()
    (process.folder / "auxv").unlink()
    assert process.found() == {IN_WORK: 1}
    assert process.preview().linked_files() == []
    shutil.rmtree(process.folder / "task")
    assert process.found() == {}
    (process.folder / "maps").unlink()
    assert process.found() == {}
    shutil.rmtree(process.folder)
    preview = process.preview()
    assert (preview.regions, preview.linked_files(), preview.code_addresses()) == ((), [], {})
    assert preview.path_at(IN_WORK) is None


def test_code_addresses_when_task_name_is_not_a_number_is_empty(process: Process) -> None:
    process.sleeper(100, STACK, IN_WORK)
    (process.folder / "task" / "x").mkdir()
    assert process.found() == {}


def test_code_addresses_when_stack_pointer_is_unmapped(process: Process) -> None:
    for number, sp in enumerate((0, STACK - 8, STACK_END, (1 << 64) - 1)):
        process.sleeper(100 + number, sp, IN_WORK + number)
    assert process.found() == {IN_WORK + number: 1 for number in range(4)}


def test_code_addresses_when_memory_ends_within_a_word(process: Process) -> None:
    process.sleeper(100, STACK, IN_WORK)
    process.store(STACK, IN_PROGRAM, IN_PROGRAM + 1)
    os.truncate(process.folder / "mem", STACK + 15)
    assert process.found() == {IN_WORK: 1, IN_PROGRAM: 1}


def test_code_addresses_are_only_in_code(process: Process) -> None:
    """Two files with data between them: first and last byte of the code, and addresses next to them."""
    inside = [PROGRAM_CODE, PROGRAM_CODE + 0xFFF, WORK_CODE, WORK_END - 1]
    outside = [0, 1, PROGRAM, PROGRAM_CODE - 1, PROGRAM_CODE + 0x1000, PROGRAM + 0x4000, WORK - 1, WORK, WORK_CODE - 1,
              WORK_END, WORK_END + 0x1000, STACK, STACK + 8, (1 << 64) - 1]
    process.store(STACK, *outside, *inside, *outside)
    process.sleeper(100, STACK, WORK_END)
    assert process.found() == dict.fromkeys(inside, 1)


def test_code_addresses_exclude_code_without_a_file(process: Process) -> None:
    """Code of a JIT compiler and of the kernel."""
    process.store(STACK, ANONYMOUS, ANONYMOUS + 0x10, VDSO + 0x10, IN_WORK)
    process.sleeper(100, STACK, VDSO + 0x20)
    assert process.found() == {IN_WORK: 1}
    (process.folder / "maps").write_text("".join(line for line in MAPS.splitlines(True) if "/" not in line))
    assert process.found() == {}


def test_code_addresses_read_at_most_16_kib_of_a_stack(process: Process) -> None:
    """The read also stops at the end of the mapping."""
    process.sleeper(100, STACK, IN_WORK)
    process.store(STACK + (16 << 10) - 8, WORK_CODE, WORK_CODE + 1)
    process.sleeper(101, STACK_END - 8, IN_WORK + 1)
    process.store(STACK_END - 8, WORK_CODE + 2, WORK_CODE + 3)
    assert process.found() == dict.fromkeys([IN_WORK, WORK_CODE, IN_WORK + 1, WORK_CODE + 2], 1)


def test_code_addresses_read_at_most_64_threads(process: Process) -> None:
    """These are the first 64 by number, not by name."""
    for number in range(60, 130):
        process.sleeper(number, 0, WORK_CODE + number)
    assert process.found() == {WORK_CODE + number: 1 for number in range(60, 124)}


def test_code_addresses_count_threads(process: Process) -> None:
    """A thread counts once, even if it has called the function several times."""
    process.store(STACK, *[IN_PROGRAM] * 50)
    process.store(STACK + 0x8000, *[IN_PROGRAM] * 50, IN_WORK)
    for number in range(3):
        process.sleeper(100 + number, STACK + 0x8000 * (number > 0), IN_WORK)
    assert process.found() == {IN_PROGRAM: 3, IN_WORK: 3}
    assert process.found()[WORK_CODE] == 0


def test_path_at(process: Process) -> None:
    preview = process.preview()
    assert preview.path_at(PROGRAM) == "/opt/program"
    assert preview.path_at(WORK_END + 0xFFF) == "/lib/my libwork.so.1"
    for address in (0, WORK_END + 0x1000, ANONYMOUS, STACK, VDSO):
        assert preview.path_at(address) is None


def test_linked_files(process: Process) -> None:
    header = struct.Struct("<IIQQQQQQ")
    process.auxiliary({6: 4096, 3: PROGRAM + 0x40, 5: 2})
    with open(process.folder / "mem", "r+b") as file:
        file.seek(PROGRAM + 0x40)
        file.write(header.pack(6, 4, 0, 0x40, 0, 0, 112, 8) + header.pack(2, 4, 0, 0x2000, 0, 0, 32, 8))
        file.seek(PROGRAM + 0x3800)
        file.write(b"\0/lib/\xff.so\0")
    process.store(PROGRAM + 0x2000, 21, PROGRAM + 0x3000, 0, 0)
    process.store(PROGRAM + 0x3000, 1, PROGRAM + 0x3100)
    process.store(PROGRAM + 0x3100, PROGRAM, PROGRAM + 0x3800, PROGRAM + 0x2000, PROGRAM + 0x3200)
    process.store(PROGRAM + 0x3200, WORK, PROGRAM + 0x3801, WORK_END, 0)
    assert process.preview().linked_files() == [LinkedFile("", PROGRAM, PROGRAM + 0x2000),
                                                LinkedFile("/lib/\udcff.so", WORK, WORK_END)]


@pytest.mark.parametrize("address", [0, 1 << 47, 1 << 63, (1 << 64) - 1])
def test_linked_files_when_auxiliary_vector_is_impossible_is_empty(address: int, process: Process) -> None:
    process.auxiliary({3: address, 5: (1 << 64) - 1})
    assert process.preview().linked_files() == []
    with open(process.folder / "auxv", "ab") as file:
        file.write(b"cut off")
    assert process.preview().linked_files() == []
