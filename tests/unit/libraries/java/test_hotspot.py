from __future__ import annotations

import pytest

from gdbext.errors import MemoryUnreadable
from gdbext.libraries.java import hotspot
from gdbext.libraries.java.hotspot import Monitor
from tests.support.fake_hotspot import SIZES, VERSIONS, FakeHotspot
from tests.support.fake_memory import FakeMemory, NoiseMemory

STACKS = [(0x7E00_0000_0000 + 0x10_0000 * i, 0x7E00_0008_0000 + 0x10_0000 * i) for i in range(3)]
ALL = pytest.mark.parametrize("version", VERSIONS)


def machine(version: str) -> FakeHotspot:
    """With three threads, whose numbers as owners are 31, 32 and 33."""
    made = FakeHotspot(version)
    for i, stack in enumerate(STACKS):
        made.thread(0x7D00 + i, 101 + i, stack, owner_id=31 + i)
    return made


def owner(made: FakeHotspot, monitor: int) -> tuple[str, int | None]:
    table = made.table()
    found = hotspot.read_monitor(made.memory, table, hotspot.read_java_threads(made.memory, table), monitor)
    assert found.address == monitor
    return found.how, found.owner.tid if found.owner is not None else None


@ALL
def test_table(version: str) -> None:
    made = FakeHotspot(version)
    table = made.table()
    assert table.offsets["JavaThread._osthread"] == 0x38
    assert table.offsets.keys() == {name.replace("Thread.", "JavaThread.") if name.startswith("Thread.") else name
                                    for name in made.offsets}
    assert table.statics == made.statics
    assert table.sizes == {name: size for name, size in SIZES.items() if name != "Other"}


@pytest.mark.parametrize(("name", "value"), [
    ("gHotSpotVMStructs", 0), ("gHotSpotVMStructs", 0x1234), ("gHotSpotVMStructEntryArrayStride", 0),
    ("gHotSpotVMStructEntryArrayStride", 1 << 20), ("gHotSpotVMStructEntryOffsetOffset", 1 << 40)])
def test_damaged_table(name: str, value: int) -> None:
    made = FakeHotspot("17")
    made.memory.u64(made.variables[name], value)
    assert hotspot.read_table(made.memory, made.variables.get) is None


def test_library_without_table() -> None:
    assert hotspot.read_table(FakeMemory(), lambda name: None) is None
    assert hotspot.read_table(FakeMemory(), lambda name: 0x1000) is None


@pytest.mark.parametrize("without", [
    "JavaThread._osthread", "OSThread._pthread_id", "ObjectMonitor._owner", "ThreadsList._length"])
def test_table_that_lacks_a_member(without: str) -> None:
    made = FakeHotspot("17", without)
    assert hotspot.read_table(made.memory, made.variables.get) is None


def test_sizes_are_not_needed() -> None:
    made = FakeHotspot("17")
    made.memory.u64(made.variables["gHotSpotVMTypeEntryArrayStride"], 0)
    assert made.table().sizes == {}


def test_table_of_noise_is_bounded() -> None:
    memory = NoiseMemory(7)
    hotspot.read_table(memory, lambda name: 0x1_0000 + 8 * len(name))
    assert memory.bytes_read < 1 << 24


@ALL
def test_java_threads(version: str) -> None:
    made = machine(version)
    found = hotspot.read_java_threads(made.memory, made.table())
    assert sorted((thread.pthread, thread.tid, thread.stack) for thread in found) == [
        (0x7D00 + i, 101 + i, stack) for i, stack in enumerate(STACKS)]
    assert {thread.owner_id for thread in found} == ({31, 32, 33} if version == "25" else {None})


def test_thread_that_is_damaged_is_left_out() -> None:
    made = machine("17")
    made.put(made.threads[0], "JavaThread._osthread", 0x10)
    made.put(made.threads[1], "JavaThread._stack_size", 1 << 50)
    assert [thread.tid for thread in hotspot.read_java_threads(made.memory, made.table())] == [103]


def test_list_of_threads_that_is_damaged() -> None:
    made = machine("11")
    made.put(made.threads[0], "JavaThread._next", made.threads[2])
    assert len(hotspot.read_java_threads(made.memory, made.table())) == 3
    made.put(made.threads[0], "JavaThread._next", 0x10)
    assert hotspot.read_java_threads(made.memory, made.table()) == ()
    made = machine("17")
    listed = int.from_bytes(made.memory.read(made.statics["ThreadsSMRSupport._java_thread_list"], 8), "little")
    made.memory.u32(listed + 4, 1 << 30)
    assert hotspot.read_java_threads(made.memory, made.table()) == ()


@ALL
def test_recorded_owner(version: str) -> None:
    made = machine(version)
    monitor, _ = made.monitor(32 if version == "25" else made.threads[1])
    assert owner(made, monitor) == ("recorded", 102)


@pytest.mark.parametrize("version", ["11", "17", "21"])
def test_owner_by_an_address_on_its_stack(version: str) -> None:
    made = machine(version)
    monitor, _ = made.monitor(STACKS[2][0] + 0x100)
    assert owner(made, monitor) == ("recorded", 103)
    # a stack that has another thread now, too
    made.thread(0x7D10, 110, STACKS[2])
    assert owner(made, monitor) == ("unknown", None)


@pytest.mark.parametrize("version", ["21", "25"])
def test_anonymous_owner_by_the_stack_of_locks(version: str) -> None:
    made = machine(version)
    monitor, subject = made.monitor(1)
    assert owner(made, monitor) == ("unknown", None)
    made.lock(made.threads[0], 0x4444, subject)
    assert owner(made, monitor) == ("lock-stack", 101)
    made.lock(made.threads[1], subject)
    assert owner(made, monitor) == ("unknown", None)


def test_object_behind_the_top_of_a_stack_of_locks_does_not_count() -> None:
    made = machine("25")
    monitor, subject = made.monitor(1)
    made.lock(made.threads[0], 0x4444, subject)
    top = made.threads[0] + 0x80
    for value in (0x90 + 8, 0, 0x90 + 9, 1 << 31):
        made.memory.u32(top, value)
        assert owner(made, monitor) == ("unknown", None)


def test_anonymous_owner_by_its_stack() -> None:
    made = machine("25")
    monitor, subject = made.monitor(1)
    made.lock(made.threads[0], subject)
    made.put(monitor, "ObjectMonitor._stack_locker", STACKS[1][0])
    assert owner(made, monitor) == ("recorded", 102)


@pytest.mark.parametrize(("version", "word", "how"), [
    ("11", 0, "free"), ("17", 0, "free"), ("17", (1 << 64) - 1, "free"), ("25", 2, "free"),
    # no marker in these versions, a virtual thread, damaged words
    ("17", 1, "unknown"), ("25", 77, "unknown"), ("17", 0x5555_0000, "unknown"), ("25", 1 << 63, "unknown")])
def test_no_owner(version: str, word: int, how: str) -> None:
    made = machine(version)
    monitor, _ = made.monitor(word)
    assert owner(made, monitor) == (how, None)


def test_monitor_that_is_not_readable() -> None:
    made = machine("17")
    with pytest.raises(MemoryUnreadable):
        hotspot.read_monitor(made.memory, made.table(), (), 0x10)
    monitor, _ = made.monitor(made.threads[0])
    assert hotspot.read_monitor(made.memory, made.table(), (), monitor) == Monitor(
        monitor, "unknown", None, made.threads[0])


def test_park_event() -> None:
    made = FakeHotspot("17")
    condition = made.park()
    assert hotspot.is_park_event(made.memory, condition)
    made.memory.u32(condition - 48, 5)
    assert not hotspot.is_park_event(made.memory, condition)
    made.memory.u32(condition - 48, 0, 0)
    assert not hotspot.is_park_event(made.memory, condition)
    assert not hotspot.is_park_event(made.memory, 0x10)
