from __future__ import annotations

import struct

import pytest

from gdbext.errors import CorruptStructure, GdbextError
from gdbext.libraries.java import heap as java_heap
from gdbext.libraries.java.heap import Objects
from tests.support.fake_hotspot import LIBRARY, VERSIONS
from tests.support.fake_java_heap import AQS, LOCKS, FakeJavaHeap, numbers
from tests.support.fake_memory import NoiseMemory

ALL = pytest.mark.parametrize("version", VERSIONS)
THREAD, BLOCKER = "java.lang.Thread", "Ljava/lang/Object;"
LOCK = f"{LOCKS}ReentrantLock$NonfairSync"
ZGC = [("11", None), ("17", None), ("21", False), ("21", True), ("25", None)]


def reader(made: FakeJavaHeap) -> Objects:
    found = made.objects()
    assert found is not None
    return found


def check(made: FakeJavaHeap) -> None:
    """Read classes, a number and a reference."""
    objects = reader(made)
    lock, thread = made.lock_object(LOCK, 0, 5), made.java_thread(0x1234_5678_9ABC)
    assert objects.names(lock) == (LOCK, f"{LOCKS}ReentrantLock$Sync", AQS, f"{LOCKS}AbstractOwnableSynchronizer",
                                   "java.lang.Object")
    assert made.memory.read(objects.place(lock, AQS, "state", "I"), 4) == b"\5\0\0\0"
    assert made.memory.read(objects.place(thread, THREAD, "eetop", "J"), 8) == struct.pack("<Q", 0x1234_5678_9ABC)
    assert objects.reference(thread, THREAD, "parkBlocker", BLOCKER) == 0
    made.set(thread, THREAD, "parkBlocker", lock)
    assert objects.reference(thread, THREAD, "parkBlocker", BLOCKER) == lock


@ALL
@pytest.mark.parametrize("collector", ["UseSerialGC", "UseParallelGC", "UseG1GC"])
def test_objects(version: str, collector: str) -> None:
    check(FakeJavaHeap(version, collector=collector))


@ALL
def test_references_that_are_not_compressed(version: str) -> None:
    check(FakeJavaHeap(version, compressed=False))


def test_compact_headers() -> None:
    check(FakeJavaHeap("25", compact=True))


@pytest.mark.parametrize(("version", "generational"), ZGC)
def test_references_of_zgc(version: str, generational: bool | None) -> None:
    made = FakeJavaHeap(version, collector="UseZGC", generational=generational)
    check(made)
    thread, lock = made.java_thread(0), made.lock_object(LOCK)
    made.set(thread, THREAD, "parkBlocker", lock, stale=True)
    with pytest.raises(CorruptStructure, match="may have moved"):
        reader(made).reference(thread, THREAD, "parkBlocker", BLOCKER)
    # null has such bits too
    made.memory.u64(made.place(thread, THREAD, "parkBlocker"), made.stale if made.shift else 0)
    assert reader(made).reference(thread, THREAD, "parkBlocker", BLOCKER) == 0


@ALL
def test_no_objects_while_they_are_moved(version: str) -> None:
    made = FakeJavaHeap(version)
    moves = next(member for member in made.offsets if member.startswith("CollectedHeap."))
    made.memory.write(made.heap + made.offset(moves), b"\1")
    assert made.objects() is None


@pytest.mark.parametrize("without", [
    "CollectedHeap._is_gc_active", "Universe._collectedHeap", "JVMFlag.flags", "JVMFlag._addr",
    "CompressedOops._narrow_oop._base", "CompressedKlassPointers._narrow_klass._shift"])
def test_table_that_lacks_a_member(without: str) -> None:
    made = FakeJavaHeap("17", without)
    assert made.objects() is None


@pytest.mark.parametrize("collector", ["UseShenandoahGC", "UseEpsilonGC", "UseConcMarkSweepGC"])
def test_heaps_of_other_collectors(collector: str) -> None:
    assert FakeJavaHeap("17", collector=collector).objects() is None


@pytest.mark.parametrize("version", ["17", "25"])
def test_zgc_without_bits(version: str) -> None:
    made = FakeJavaHeap(version, collector="UseZGC")
    made.memory.u64(made.statics["ZGlobalsForVMStructs._instance_p"], 0)
    assert made.objects() is None


@pytest.mark.parametrize(("static", "value"), [
    ("JVMFlag.flags", 0x1234), ("JVMFlag.numFlags", 1 << 40), ("Universe._collectedHeap", 0x1234),
    ("CompressedOops._narrow_oop._shift", 60)])
def test_damaged_values(static: str, value: int) -> None:
    made = FakeJavaHeap("17")
    made.memory.u64(made.statics[static], value)
    assert made.objects() is None


def test_address_that_is_no_object() -> None:
    made = FakeJavaHeap("17")
    lock = made.lock_object(LOCK)
    for address in (0, lock + 4, lock + 0x20, 0x1234_5670):
        with pytest.raises(GdbextError):
            reader(made).names(address)
    with pytest.raises(CorruptStructure, match="no java.lang.Thread"):
        reader(made).place(lock, THREAD, "eetop", "J")


@ALL
def test_fields(version: str) -> None:
    made = FakeJavaHeap(version)
    thread = made.java_thread(0)
    objects = reader(made)
    for name, kind in (("counter", "J"), ("parkBlocker", "I"), ("eetop", "I"), ("nothing", "J")):
        with pytest.raises(CorruptStructure, match=f"no field {name}"):
            objects.place(thread, THREAD, name, kind)
    assert objects.has(thread, THREAD, "eetop")
    assert not objects.has(thread, THREAD, "counter")
    assert not objects.has(thread, LOCK, "eetop")
    assert not objects.has(0x10, THREAD, "eetop")


@pytest.mark.parametrize("data", [
    b"", b"\2", numbers([1 << 20, 0, 1, 2, 3]), numbers([1, 0, 1, 2, 0x10, 0, 1 << 5]), b"\xff" * 40])
def test_damaged_fields(data: bytes) -> None:
    """The stream ends too early, or a later version has added something."""
    made = FakeJavaHeap("25")
    thread = made.java_thread(0)
    stream = int.from_bytes(made.memory.read(made.klass(THREAD) + 448, 8), "little")
    made.memory.u32(stream, len(data))
    made.memory.write(stream + 4, data)
    with pytest.raises(CorruptStructure, match="no field eetop"):
        reader(made).place(thread, THREAD, "eetop", "J")


def test_constants_that_are_damaged() -> None:
    made = FakeJavaHeap("17")
    thread = made.java_thread(0)
    pool = int.from_bytes(made.memory.read(made.klass(THREAD) + made.offset("InstanceKlass._constants"), 8), "little")
    made.memory.u32(pool + made.offset("ConstantPool._length"), 1 << 30)
    with pytest.raises(CorruptStructure, match="no constants"):
        reader(made).place(thread, THREAD, "eetop", "J")


def test_base_classes_that_form_a_circle() -> None:
    made = FakeJavaHeap("17")
    subject = made.new("java.util.Vector")
    made.put(made.klass("java.lang.Object"), "Klass._super", made.klass("java.util.Vector"))
    assert reader(made).names(subject) == ("java.util.Vector", "java.lang.Object")


def test_numbers_of_several_bytes() -> None:
    expected = [0, 1, 190, 191, 192, 0x307E, 0x307F, 0xC207E, 0xC207F, 0x308207F, 0x3082080, 0xFFFF_FFFF]
    assert list(java_heap._iter_numbers(numbers(expected))) == expected


def test_noise_is_bounded() -> None:
    memory = NoiseMemory(3)
    table = FakeJavaHeap("21").table()
    java_heap.read_encoding(memory, table)
    for compact in (False, True):
        objects = Objects(memory, table, java_heap.Encoding((0, 0), (0, 0), compact), lambda at: True)
        for address in range(0x1_0000, 0x1_4000, 8):
            try:
                objects.place(address, objects.names(address)[-1], "eetop", "J")
            except GdbextError:
                pass
    assert memory.bytes_read < 1 << 28


# -- monitors ------------------------------------------------------------------------------------------------


def name(made: FakeJavaHeap, monitor: int) -> str | None:
    return java_heap.class_of_monitor(made.memory, made.table(), reader(made), monitor)


@ALL
def test_class_of_the_object_of_a_monitor(version: str) -> None:
    for made in (FakeJavaHeap(version), FakeJavaHeap(version, compressed=False)):
        assert name(made, made.monitor(0)[0]) == "java.util.Vector"


@pytest.mark.parametrize("text", ["", "a b", "a;b", "a.b"])
def test_class_whose_name_is_damaged(text: str) -> None:
    made = FakeJavaHeap("17")
    monitor, _ = made.monitor(0)
    symbol = int.from_bytes(made.memory.read(made.klass("java.util.Vector") + 24, 8), "little")
    made.memory.write(symbol + 4, struct.pack("<H", len(text)))
    made.memory.write(symbol + 6, text.encode())
    assert name(made, monitor) is None


def test_class_that_is_damaged() -> None:
    made = FakeJavaHeap("17")
    monitor, subject = made.monitor(0)
    made.memory.u64(made.klass("java.util.Vector"), LIBRARY - 0x1000)
    assert name(made, monitor) is None
    made.memory.u64(subject + 8, 0x7777)
    assert name(made, monitor) is None
    made.put(monitor, "ObjectMonitor._object", 0)
    assert name(made, monitor) is None
    assert name(made, 0x10) is None
