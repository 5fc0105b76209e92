"""Places in shared memory, and the processes that map them, from a fake directory tree."""

from __future__ import annotations

from pathlib import Path

import pytest

from gdbext.inferior.address_space import AddressSpace
from gdbext.inferior.proc.maps import read_maps
from gdbext.inferior.proc.shared_memory import SharedMemory, Word
from tests.support.fake_proc import FakeProc

SHARED = "{}-{} rw-s {} 00:1b 78   /dev/shm/x (deleted)\n"
WORD = Word("00:1b", 78, 0x1010)


@pytest.fixture
def memory(tmp_path: Path) -> SharedMemory:
    """Process 100 maps the second page of a file, 200 its first two, and 300 another file."""
    fake = FakeProc(tmp_path)
    fake.process(1, "init", 0)
    for pid, text in ((1, ""), (100, SHARED.format("10000", "11000", "1000") + "20000-21000 rw-p 0 00:00 0\n"),
                      (200, SHARED.format("30000", "32000", "0")), (300, "10000-11000 rw-s 00001000 00:1b 79   /x\n")):
        fake.write(f"{pid}/maps", text)
        fake.write(f"{pid}/stat", f"{pid} (a) S 1 1 1 0 -1 0\n")
    spaces = {pid: AddressSpace(read_maps(pid, str(tmp_path)) or ()) for pid in (100, 200)}
    return SharedMemory(spaces, str(tmp_path))


def test_address_in_shared_memory_has_a_place_that_other_processes_have_too(memory: SharedMemory) -> None:
    assert memory.word_at(100, 0x10010) == memory.word_at(200, 0x31010) == WORD
    assert memory.word_at(100, 0x20010) is memory.word_at(100, 0x5) is None
    assert (memory.address_of(100, WORD), memory.address_of(200, WORD)) == (0x10010, 0x31010)
    assert memory.address_of(100, Word("00:1b", 78, 0x10)) is None


def test_processes_that_map_a_file(memory: SharedMemory) -> None:
    assert memory.mapped_by(WORD) == {100, 200}
    assert memory.mapped_by(Word("00:1b", 80, 0)) is None
    assert memory.unseen is None
