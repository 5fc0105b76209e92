from __future__ import annotations

import pytest

from gdbext.errors import MemoryUnreadable
from gdbext.libraries.qt.rwlock import RwlockState, decode_rwlock
from tests.support.fake_memory import FakeMemory
from tests.support.fake_qt import FakeQt

ONE, TWO = 0x7F00_1234_5700, 0x7F00_2234_5700


@pytest.fixture(params=[(5, True), (6, True), (6, False)], ids=["qt5", "qt6.4", "qt6.11"])
def layout(request: pytest.FixtureRequest) -> tuple[FakeQt, bool]:
    major, older = request.param
    return FakeQt(FakeMemory(), major), older


def test_lock_for_which_a_writer_and_a_reader_wait(layout: tuple[FakeQt, bool]) -> None:
    fake, older = layout
    _, private, to_write, to_read = fake.rwlock(older=older, readers=2, waiting=(1, 1))
    assert decode_rwlock(fake.memory, fake.major, private, to_write) == RwlockState(2, False, False, 0, ())
    assert decode_rwlock(fake.memory, fake.major, private, to_read) == RwlockState(2, False, True, 0, ())


def test_recursive_lock_records_the_writer(layout: tuple[FakeQt, bool]) -> None:
    fake, older = layout
    _, private, to_write, _ = fake.rwlock(older=older, writers=2, waiting=(0, 1), writer=ONE, recursive=True)
    assert decode_rwlock(fake.memory, fake.major, private, to_write) == RwlockState(0, True, False, ONE, ())


def test_recursive_lock_records_its_readers(layout: tuple[FakeQt, bool]) -> None:
    fake, older = layout
    _, private, to_write, _ = fake.rwlock(older=older, readers=2, waiting=(0, 1), reading=(ONE, TWO), recursive=True)
    state = decode_rwlock(fake.memory, fake.major, private, to_write)
    assert state is not None
    assert (state.readers, set(state.reading)) == (2, {ONE, TWO})


def test_condition_variable_of_something_else(layout: tuple[FakeQt, bool]) -> None:
    fake, older = layout
    _, private, to_write, _ = fake.rwlock(older=older, readers=1, waiting=(0, 1))
    assert decode_rwlock(fake.memory, fake.major, private, to_write + 8) is None
    assert decode_rwlock(fake.memory, fake.major, private + 8, to_write) is None


def test_reader_that_was_woken_because_a_writer_gave_up(layout: tuple[FakeQt, bool]) -> None:
    fake, older = layout
    _, private, _, to_read = fake.rwlock(older=older, readers=1, waiting=(1, 0))
    assert decode_rwlock(fake.memory, fake.major, private, to_read) is None


@pytest.mark.parametrize("state", [
    {"readers": 1}, {"readers": 1, "writers": 1, "waiting": (0, 1)}, {"writers": 2, "waiting": (0, 1)},
    {"writers": 1, "writer": ONE, "waiting": (0, 1)}, {"readers": 1 << 30, "waiting": (0, 1)},
    {"readers": 3, "reading": (ONE, TWO), "recursive": True, "waiting": (0, 1)},
    {"readers": 1, "reading": (ONE, TWO), "recursive": True, "waiting": (0, 1)}])
def test_counts_that_contradict_the_wait(layout: tuple[FakeQt, bool], state: dict[str, int]) -> None:
    fake, older = layout
    _, private, to_write, _ = fake.rwlock(older=older, **state)  # type: ignore[arg-type]
    assert decode_rwlock(fake.memory, fake.major, private, to_write) is None


def test_circular_list_of_readers_ends() -> None:
    fake = FakeQt(FakeMemory(), 5)
    _, private, to_write, _ = fake.rwlock(readers=2, waiting=(0, 1), reading=(ONE, TWO), recursive=True)
    data = int.from_bytes(fake.memory.read(private + 56, 8), "little")
    node = int.from_bytes(fake.memory.read(int.from_bytes(fake.memory.read(data + 8, 8), "little") + 8, 8), "little")
    fake.memory.u64(node, node)
    state = decode_rwlock(fake.memory, 5, private, to_write)
    assert state is None or state.reading == (TWO, TWO)


def test_private_data_that_are_not_mapped() -> None:
    with pytest.raises(MemoryUnreadable):
        decode_rwlock(FakeMemory(), 5, 0x1000, 0x2000)
