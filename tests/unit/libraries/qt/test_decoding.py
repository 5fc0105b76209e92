from __future__ import annotations

import pytest

from gdbext.errors import MemoryUnreadable
from gdbext.libraries.qt import decoding as qt
from gdbext.libraries.qt.decoding import ThreadData
from tests.support.fake_memory import FakeMemory
from tests.support.fake_qt import FakeQt

PTHREAD, OTHER = 0x7F00_1234_5700, 0x7F00_2234_5700
LATCH = 0x7F00_1234_0D6C


@pytest.fixture(params=[5, 6])
def fake(request: pytest.FixtureRequest) -> FakeQt:
    return FakeQt(FakeMemory(), request.param)


def data_of(fake: FakeQt, at: int) -> ThreadData:
    receiver = fake.lives_in(fake.object(), at)
    found, = qt.find_thread_data(fake.memory, fake.private(receiver), {PTHREAD})
    return found


@pytest.mark.parametrize(("name", "major"), [
    ("libQt5Core.so.5.15.8", 5), ("libQt6Core.so.6", 6), ("libQt5Core-39545cc7.so.5.15.0", 5), ("libQt6Gui.so.6", None),
    ("libQt4Core.so.4", None), ("libQt6Core5Compat.so.6", None)])
def test_version_of_a_file(name: str, major: int | None) -> None:
    assert qt.major_version(name) == major


@pytest.mark.parametrize(("word", "locked"), [(0, False), (1, True), (3, True), (2, None), (0x5555_0000_0003, None)])
def test_word_of_a_mutex(word: int, locked: bool | None) -> None:
    memory = FakeMemory({0x1000: bytes(16)})
    memory.u64(0x1000, word)
    assert qt.is_locked(memory, 0x1000) is locked


def test_mutex_that_is_not_mapped() -> None:
    with pytest.raises(MemoryUnreadable):
        qt.is_locked(FakeMemory(), 0x1000)


@pytest.mark.parametrize(("flag", "owner", "count", "inside"), [
    (1, PTHREAD, 0, True), (1, PTHREAD, 5, True), (0, PTHREAD, 0, False), (2, PTHREAD, 0, False), (1, OTHER, 0, False),
    (1, PTHREAD, 1 << 30, False)])
def test_recursive_mutex_of_qt_5(flag: int, owner: int, count: int, inside: bool) -> None:
    memory = FakeMemory({0x1000: bytes(64)})
    memory.u64(0x1000, flag, owner, count, 3)
    assert qt.is_inside_recursive(memory, 0x1018, {PTHREAD}) is inside
    assert qt.owner_of_recursive(memory, 0x1018) == owner


def test_data_of_a_thread_are_found_from_an_object(fake: FakeQt) -> None:
    at = fake.thread(PTHREAD)
    assert data_of(fake, at).at == at


def test_data_of_a_thread_that_is_not_here(fake: FakeQt) -> None:
    receiver = fake.lives_in(fake.object(), fake.thread(OTHER))
    assert list(qt.find_thread_data(fake.memory, fake.private(receiver), {PTHREAD})) == []


def test_partner_is_mutual(fake: FakeQt) -> None:
    public = fake.object()
    private = fake.private(public)
    assert (qt.partner_of(fake.memory, public), qt.partner_of(fake.memory, private)) == (private, public)
    fake.memory.u64(private + 8, public + 8)
    assert qt.partner_of(fake.memory, public) == qt.partner_of(fake.memory, 0) == qt.partner_of(fake.memory, 3) == 0


def test_call_in_the_queue(fake: FakeQt) -> None:
    data = data_of(fake, fake.thread(PTHREAD, (fake.event(OTHER), fake.event(LATCH))))
    assert qt.has_call(fake.memory, fake.major, data, LATCH)
    assert not qt.has_call(fake.memory, fake.major, data, LATCH + 8)


def test_event_that_is_being_handled_has_left_the_queue(fake: FakeQt) -> None:
    fake.event(LATCH)
    data = data_of(fake, fake.thread(PTHREAD, (0,)))
    assert not qt.has_call(fake.memory, fake.major, data, LATCH)


def test_event_behind_the_end_of_the_queue_is_stale(fake: FakeQt) -> None:
    at = fake.thread(PTHREAD, (fake.event(OTHER), fake.event(LATCH)))
    data = data_of(fake, at)
    if fake.major == 5:
        fake.memory.u32(int.from_bytes(fake.memory.read(at - 32, 8), "little") + 4, 1)
    else:
        fake.memory.u64(at - 40, 1)
    assert not qt.has_call(fake.memory, fake.major, data, LATCH)


@pytest.mark.parametrize("count", [1 << 20, (1 << 31) - 1])
def test_queue_of_an_impossible_size_has_no_call(fake: FakeQt, count: int) -> None:
    at = fake.thread(PTHREAD, (fake.event(LATCH),))
    if fake.major == 5:
        fake.memory.u32(int.from_bytes(fake.memory.read(at - 32, 8), "little") + 4, count)
    else:
        fake.memory.u64(at - 40, count)
    assert not qt.has_call(fake.memory, fake.major, data_of(fake, at), LATCH)


def test_end_of_a_thread_by_either_half_of_it(fake: FakeQt) -> None:
    at = fake.thread(PTHREAD)
    condition = fake.waits_for_end(at)
    thread = int.from_bytes(fake.memory.read(at, 8), "little")
    for address in (thread, fake.private(thread)):
        assert qt.ended_thread(fake.memory, address, condition, {PTHREAD}) == PTHREAD
        assert qt.ended_thread(fake.memory, address, condition + 8, {PTHREAD}) is None
        assert qt.ended_thread(fake.memory, address, condition, {OTHER}) is None
    assert qt.ended_thread(fake.memory, 0x40, condition, {PTHREAD}) is None


def test_end_of_another_thread_than_the_one_with_the_condition(fake: FakeQt) -> None:
    at, other = fake.thread(PTHREAD), fake.thread(OTHER)
    condition = fake.waits_for_end(at)
    thread = int.from_bytes(fake.memory.read(other, 8), "little")
    assert qt.ended_thread(fake.memory, thread, condition, {PTHREAD, OTHER}) is None


HEADER, MUTEX = 16, 0x5555_0000_0010
#: The indices of the pointers between the wrapper's first object and the locker.
PATHS = {"PyQt5": (), "PyQt6": (1,), "PySide6": (3, 0)}


@pytest.mark.parametrize("package", PATHS)
@pytest.mark.parametrize("locked", [True, False])
def test_locker_of_a_python_program(package: str, locked: bool) -> None:
    fake = FakeQt(FakeMemory(), 6, 0x5555_0001_0000)
    wrapper, at = fake.alloc(64), fake.alloc(64)
    fake.memory.u64(wrapper + HEADER + (16 if package == "PySide6" else 0), at)
    for index in PATHS[package]:
        following = fake.alloc(64)
        fake.memory.u64(at + 8 * index, following)
        at = following
    # Qt 5: a pointer whose lowest bit says whether it is locked; Qt 6: a pointer and a flag
    fake.memory.u64(at, *((MUTEX | int(locked),) if package == "PyQt5" else (MUTEX, int(locked))))
    assert qt.locker_holds(fake.memory, wrapper, HEADER, MUTEX) is locked
    assert not qt.locker_holds(fake.memory, wrapper, HEADER, MUTEX + 8)
    assert qt.locker_holds(fake.memory, wrapper, HEADER, MUTEX, False) is (locked and package == "PyQt5")


def test_locker_that_is_not_mapped() -> None:
    assert not qt.locker_holds(FakeMemory(), 0x5555_0000_0000, HEADER, MUTEX)
