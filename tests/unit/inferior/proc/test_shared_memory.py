"""Places in shared memory, and the processes that map them, from a fake directory tree."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gdbext.inferior.address_space import AddressSpace
from gdbext.inferior.proc.maps import read_maps
from gdbext.inferior.proc.shared_memory import SharedMemory, Sharers, Word
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


FORKED, STARTED = 4194368, 4194304


@pytest.mark.parametrize(("own", "other", "found"), [
    (STARTED, {}, Sharers((), True)),
    (STARTED, {"inode": 78}, Sharers((200,), True)),
    (STARTED, {"inode": 79}, Sharers((), True)),
    # the memory of these cannot be read
    (STARTED, {"inode": None}, Sharers((), False)),
    (STARTED, {"inode": None, "state": "Z"}, Sharers((), True)),
    (STARTED, {"inode": None, "user": 5}, Sharers((), True)),
    # a fork copies the mappings, and the copy may then change its user
    (STARTED, {"inode": None, "user": 5, "flags": FORKED}, Sharers((), False)),
    (FORKED, {"inode": None, "user": 5}, Sharers((), False))])
def test_other_processes_that_map_the_file(tmp_path: Path, own: int, other: dict[str, Any], found: Sharers) -> None:
    fake = FakeProc(tmp_path)
    fake.process(1, "init", 0)  # without maps
    for pid, flags, inode, user in ((1, STARTED, None, 0), (100, own, 78, 0),
                                    (200, other.get("flags", STARTED), other.get("inode"), other.get("user", 0))):
        if pid == 200 and not other:
            continue
        if pid == 200:
            fake.process(pid, "worker", 1)
        fake.write(f"{pid}/stat", f"{pid} (a) {other.get('state', 'S') if pid == 200 else 'S'} 1 1 1 0 -1 {flags} 0\n")
        fake.write(f"{pid}/status", f"Name:\ta\nUid:\t{user}\t{user}\t{user}\t{user}\n")
        if inode is not None:
            fake.write(f"{pid}/maps", SHARED.format("10000", "11000", "1000").replace(" 78 ", f" {inode} "))
    assert fake.proc().sharers(0x10010) == found


def test_private_memory_has_no_known_sharers(tmp_path: Path) -> None:
    fake = FakeProc(tmp_path)
    fake.write("100/maps", "10000-11000 rw-p 00000000 00:00 0\n")
    assert fake.proc().sharers(0x10010) == fake.proc().sharers(0x5) == Sharers((), False)
