from __future__ import annotations

import pytest

from gdbext.cpython import collected
from gdbext.cpython.collected import find_tracked
from gdbext.errors import CorruptStructure, MemoryUnreadable
from tests.support.fake_memory import FakeMemory

STATE, END = 0x1000, 0x1400
HEAD = STATE + 0x100
KIND, OTHER = 0x9000, 0xA000


def heap(*lists: list[tuple[int, int]]) -> FakeMemory:
    """Lists of objects with their types; the heads are 24 bytes apart, and one has a pointer before it."""
    memory = FakeMemory({STATE: bytes(END - STATE)})
    for i, objects in enumerate(lists):
        head = HEAD + 24 * i + (8 if i == 3 else 0)
        nodes = [head, *(at - 16 for at, _ in objects)]
        for j, node in enumerate(nodes):
            memory.u64(node, nodes[(j + 1) % len(nodes)], nodes[j - 1])
        for at, kind in objects:
            memory.u64(at, 1, kind)
    return memory


def find(memory: FakeMemory, anchor: int) -> list[int]:
    return find_tracked(memory, anchor, (STATE, END), lambda kind: kind == KIND)


OBJECTS = [[(0x20010, KIND)], [], [(0x30010, OTHER), (0x31010, KIND), (0x32010, OTHER)], [(0x40010, KIND)]]


@pytest.mark.parametrize("anchor", [0x20010, 0x30010, 0x32010, 0x40010])
def test_objects_of_all_lists_are_found_from_any_object(anchor: int) -> None:
    assert sorted(find(heap(*OBJECTS), anchor)) == [0x20010, 0x31010, 0x40010]


def test_type_is_asked_for_once() -> None:
    asked: list[int] = []

    def is_wanted(kind: int) -> bool:
        asked.append(kind)
        return False

    assert find_tracked(heap(*OBJECTS), 0x20010, (STATE, END), is_wanted) == []
    assert asked == [KIND, OTHER]


def test_flags_in_links_do_not_count() -> None:
    memory = heap(*OBJECTS)
    memory.u64(0x31010 - 16, (0x32010 - 16) | 1, (0x30010 - 16) | 3)
    assert 0x31010 in find(memory, 0x20010)


@pytest.mark.parametrize("anchor", [0x30010, 0x20010])
def test_list_without_an_end_is_damage(anchor: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collected, "MAX_OBJECTS", 50)
    memory = heap(*OBJECTS)
    memory.u64(0x31010 - 16, 0x30010 - 16)
    with pytest.raises(CorruptStructure, match="more than 50 objects"):
        find(memory, anchor)


def test_unmapped_object_is_unreadable() -> None:
    memory = heap(*OBJECTS)
    memory.u64(0x31010 - 16, 0x777000)
    with pytest.raises(MemoryUnreadable):
        find(memory, 0x20010)
