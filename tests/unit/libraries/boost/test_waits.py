from __future__ import annotations

import struct

import pytest

from gdbext.layout.select import glibc_layouts
from gdbext.libraries.boost.waits import SharedMutexState, find_shared_mutex
from tests.support.fake_memory import FakeMemory

LAYOUTS = glibc_layouts("2.36", "x86_64")
AT = 0x5555_0000_1000
CONDITIONS = (88, 176, 264)


def shared_mutex(readers: int = 0, exclusive: int = 0, upgrade: int = 0, writer_waits: int = 0) -> FakeMemory:
    memory = FakeMemory({AT - 0x200: bytes(0x600)})
    memory.write(AT, struct.pack("<IBBB", readers, exclusive, upgrade, writer_waits))
    return memory


@pytest.mark.parametrize(("state", "index", "shared"), [
    ((0, 1, 0, 0), 0, True), ((2, 0, 0, 1), 0, True), ((1, 0, 1, 0), 0, True),
    ((0, 1, 0, 1), 1, False), ((3, 0, 0, 1), 1, False), ((1, 0, 1, 0), 2, False)])
def test_state_in_which_threads_wait(state: tuple[int, int, int, int], index: int, shared: bool) -> None:
    found = find_shared_mutex(shared_mutex(*state), LAYOUTS, AT + CONDITIONS[index])
    assert found == SharedMutexState(AT, state[0], bool(state[1]), bool(state[2]), shared)


@pytest.mark.parametrize(("state", "index"), [
    ((0, 0, 0, 0), 0),  # nobody has to wait
    ((1, 0, 0, 0), 0), ((1, 0, 0, 0), 1), ((1, 0, 0, 1), 2), ((0, 0, 0, 1), 1),
    ((1, 1, 0, 1), 1),  # a writer beside a reader
    ((0, 2, 0, 1), 1), ((1 << 30, 0, 0, 1), 1)])
def test_state_in_which_no_thread_waits(state: tuple[int, int, int, int], index: int) -> None:
    assert find_shared_mutex(shared_mutex(*state), LAYOUTS, AT + CONDITIONS[index]) is None


@pytest.mark.parametrize("at", [8, 48, 136, 224])
@pytest.mark.parametrize("word", [3, 1, 0x5555_1234])
def test_each_mutex_must_be_plausible(at: int, word: int) -> None:
    memory = shared_mutex(0, 1, 0, 1)
    memory.u32(AT + at, word)
    assert find_shared_mutex(memory, LAYOUTS, AT + CONDITIONS[1]) is None


def test_condition_that_may_be_either_of_two() -> None:
    memory = shared_mutex(0, 1, 0, 1)
    # the state of another shared mutex, in which readers wait, where the first condition variable would be
    memory.write(AT + 88, struct.pack("<IBBB", 0, 1, 0, 0))
    assert find_shared_mutex(memory, LAYOUTS, AT + CONDITIONS[1]) is None


def test_memory_that_is_not_mapped() -> None:
    assert find_shared_mutex(FakeMemory(), LAYOUTS, AT) is None
    assert find_shared_mutex(FakeMemory(), LAYOUTS, 0x10) is None
