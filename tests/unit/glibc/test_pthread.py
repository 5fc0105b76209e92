from __future__ import annotations

import pytest

from gdbext.errors import CorruptStructure, MemoryUnreadable
from gdbext.glibc.pthread import (
    Descriptor,
    descriptor_state,
    ended_thread_of_join,
    find_descriptor,
    pthread_of_join,
    read_tid,
)
from gdbext.layout.select import glibc_layouts
from tests.support.fake_memory import Builder, FakeMemory

AT = 0x7F12_3456_7700


def descriptor(**members: int) -> FakeMemory:
    memory = FakeMemory()
    Builder(memory, glibc_layouts("2.36", "x86_64")).put("struct pthread", AT, **members)
    return memory


@pytest.mark.parametrize("version", ["2.31", "2.36", "2.41", "2.43"])
def test_read_tid_at_offset_720(version: str) -> None:
    memory = FakeMemory({AT: bytes(2368)})
    memory.u64(AT + 16, AT)
    memory.u32(AT + 720, 898)
    assert read_tid(memory, glibc_layouts(version, "x86_64"), AT) == 898


def test_read_tid_of_a_finished_thread_is_zero() -> None:
    assert read_tid(descriptor(self=AT, tid=0), glibc_layouts("2.36", "x86_64"), AT) == 0


@pytest.mark.parametrize("members", [{"self": AT + 64, "tid": 5}, {"self": AT, "tid": -5}, {"tid": 5}],
                         ids=["points elsewhere", "negative", "zeros"])
def test_read_tid_when_not_a_descriptor_raises(members: dict[str, int]) -> None:
    with pytest.raises(CorruptStructure):
        read_tid(descriptor(**members), glibc_layouts("2.36", "x86_64"), AT)


@pytest.mark.parametrize(("state", "expected"), [
    (0, Descriptor.COPIED), (0x8, Descriptor.COPIED), (0x40, Descriptor.COPIED),
    (0x10, Descriptor.ENDED), (0x30, Descriptor.ENDED)])
def test_descriptor_state_by_cancelhandling(state: int, expected: Descriptor) -> None:
    memory = descriptor(self=AT, cancelhandling=state)
    assert descriptor_state(memory, glibc_layouts("2.36", "x86_64"), AT) is expected


def test_descriptor_state_when_not_a_descriptor() -> None:
    layouts = glibc_layouts("2.36", "x86_64")
    assert descriptor_state(FakeMemory(), layouts, AT) is Descriptor.UNMAPPED
    assert descriptor_state(descriptor(self=AT + 64), layouts, AT) is Descriptor.OTHER



def test_read_tid_when_unreadable_raises() -> None:
    with pytest.raises(MemoryUnreadable):
        read_tid(FakeMemory({AT: bytes(700)}), glibc_layouts("2.36", "x86_64"), AT)


@pytest.mark.parametrize(("version", "offset"), [("2.36", 720), ("2.41", 720), ("2.43", 1576)])
def test_pthread_of_join(version: str, offset: int) -> None:
    layouts = glibc_layouts(version, "x86_64")
    descriptors = {AT: 7, AT + 0x10000: 8}
    assert pthread_of_join(layouts, AT + offset, descriptors) == AT
    assert pthread_of_join(layouts, AT + 0x10000 + offset, descriptors) == AT + 0x10000
    assert pthread_of_join(layouts, AT + offset + 4, descriptors) is None


def test_pthread_of_join_when_word_is_joinid_is_none() -> None:
    # 1576 is joinid in 2.31 and joinstate in 2.43
    assert pthread_of_join(glibc_layouts("2.36", "x86_64"), AT + 1576, {AT: 7}) is None


def test_descriptor_is_found_by_the_robust_list_in_it() -> None:
    layouts = glibc_layouts("2.36", "x86_64")
    memory = descriptor(self=AT)
    assert find_descriptor(memory, layouts, AT + 736) == AT
    for other in (AT + 744, 0x10, None):
        assert find_descriptor(memory, layouts, other) is None


@pytest.mark.parametrize(("state", "offset", "expected"), [(0x10, 720, AT), (0x00, 720, None), (0x10, 724, None)])
def test_ended_thread_of_join(state: int, offset: int, expected: int | None) -> None:
    memory = descriptor(self=AT, cancelhandling=state)
    assert ended_thread_of_join(memory, glibc_layouts("2.36", "x86_64"), AT + offset) == expected
