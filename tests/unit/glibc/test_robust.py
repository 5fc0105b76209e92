from __future__ import annotations

import pytest

from gdbext.errors import CorruptStructure, MemoryUnreadable
from gdbext.glibc.robust import iter_robust_mutexes
from gdbext.layout.select import glibc_layouts
from tests.support.fake_memory import Builder, FakeMemory

PTHREAD = 0x7F12_3456_7700
MUTEXES = (0x6000, 0x6040, 0x6080)
LAYOUTS = glibc_layouts("2.36", "x86_64")
HEAD = PTHREAD + LAYOUTS["struct pthread"].offset("robust_head")
# offset of `__list.__next` in a mutex
LINK = 32


def thread(*links: int, distance: int = -LINK) -> FakeMemory:
    """A thread with a list of robust mutexes, given by its links from the head on."""
    memory = FakeMemory()
    Builder(memory, LAYOUTS).put("struct pthread", PTHREAD, self=PTHREAD, tid=5)
    memory.u64(HEAD, links[0], distance & (1 << 64) - 1, 0)
    for link, following in zip(links, links[1:]):
        memory.u64(link & ~1, following)
    return memory


def held(memory: FakeMemory) -> list[int]:
    return list(iter_robust_mutexes(memory, LAYOUTS, PTHREAD))


@pytest.mark.parametrize("version", ["2.17", "2.23", "2.31", "2.36", "2.43"])
def test_list_is_at_the_offset_of_live_threads(version: str) -> None:
    assert glibc_layouts(version, "x86_64")["struct pthread"].offset("robust_head") == 736


def test_iter_in_list_order() -> None:
    first, second, third = (mutex + LINK for mutex in MUTEXES)
    # the lowest bit marks a priority-inheriting mutex
    assert held(thread(third, second | 1, first, HEAD)) == [MUTEXES[2], MUTEXES[1], MUTEXES[0]]


@pytest.mark.parametrize("first", [HEAD, 0], ids=["points to itself", "never set up"])
def test_iter_when_list_is_empty_reads_one_word(first: int) -> None:
    memory = thread(first)
    memory.reads.clear()
    assert held(memory) == []
    assert memory.reads == [(HEAD, 8)]


def test_iter_when_list_is_cyclic_raises() -> None:
    first, second = MUTEXES[0] + LINK, MUTEXES[1] + LINK
    walk = iter_robust_mutexes(thread(first, second, first), LAYOUTS, PTHREAD)
    assert [next(walk), next(walk)] == [MUTEXES[0], MUTEXES[1]]
    with pytest.raises(CorruptStructure, match="does not end"):
        next(walk)


def test_iter_when_list_is_too_long_raises() -> None:
    memory = thread(0x100000)
    for index in range(5000):
        memory.u64(0x100000 + 8 * index, 0x100000 + 8 * index + 8)
    with pytest.raises(CorruptStructure, match="does not end"):
        held(memory)


@pytest.mark.parametrize("distance", [0, 32, -40, -(1 << 40)])
def test_iter_when_distance_is_impossible_raises(distance: int) -> None:
    with pytest.raises(CorruptStructure, match="bytes off"):
        held(thread(MUTEXES[0] + LINK, HEAD, distance=distance))


def test_iter_when_link_is_unreadable_raises() -> None:
    walk = iter_robust_mutexes(thread(0xDEAD0000), LAYOUTS, PTHREAD)
    assert next(walk) == 0xDEAD0000 - LINK
    with pytest.raises(MemoryUnreadable):
        next(walk)


def test_iter_when_descriptor_is_unreadable_raises() -> None:
    with pytest.raises(MemoryUnreadable):
        held(FakeMemory())
