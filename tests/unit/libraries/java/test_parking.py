from __future__ import annotations

from collections.abc import Sequence

import pytest

from gdbext.errors import GdbextError
from gdbext.libraries.java import hotspot
from gdbext.libraries.java.heap import Encoding, Objects
from gdbext.libraries.java.parking import Parked, Parking
from tests.support.fake_hotspot import VERSIONS
from tests.support.fake_java_heap import AQLS, AQS, ENDED, LOCKS, PARKED, RUNS, FakeJavaHeap
from tests.support.fake_memory import NoiseMemory

ALL = pytest.mark.parametrize("version", VERSIONS)
# as in `Thread.sleep`
SLEEPS = 0xE1
THREAD = "java.lang.Thread"
LOCK, RWLOCK = f"{LOCKS}ReentrantLock$NonfairSync", f"{LOCKS}ReentrantReadWriteLock$FairSync"
CONDITION = f"{AQS}$ConditionObject"


class Process(FakeJavaHeap):
    """A Java machine with a thread that runs, and one that is in `park`."""

    def __init__(self, version: str, *, status: int = PARKED, collector: str = "UseG1GC", compressed: bool = True,
                 compact: bool = False, generational: bool | None = None) -> None:
        super().__init__(version, collector=collector, compressed=compressed, compact=compact,
                         generational=generational)
        self.owner = self.java_thread(self.thread(0x7D00, 101, stack(0)))
        self.waiter = self.parks(0x7D01, 102, stack(1), 0, status=status)

    def sleeps_for(self, blocker: int) -> None:
        self.set(self.waiter, THREAD, "parkBlocker", blocker)

    def parking(self) -> tuple[Parking, Sequence[hotspot.JavaThread]]:
        table, objects = self.table(), self.objects()
        assert objects is not None
        threads = hotspot.read_java_threads(self.memory, table)
        return Parking(self.memory, table, objects, threads), threads

    def parked(self) -> Parked | None:
        parking, threads = self.parking()
        return parking.read(next(thread for thread in threads if thread.tid == 102))

    def tid_of(self, subject: int) -> int | None:
        found = self.parking()[0].find_thread(subject)
        return found.tid if found is not None else None


def stack(number: int) -> tuple[int, int]:
    return 0x7E00_0000_0000 + 0x10_0000 * number, 0x7E00_0008_0000 + 0x10_0000 * number


@pytest.fixture(params=["11", "17", "21", "25", "25 compact", "17 wide"])
def process(request: pytest.FixtureRequest) -> Process:
    version, _, option = request.param.partition(" ")
    return Process(version, compact=option == "compact", compressed=option != "wide")


def test_owner_of_a_lock(process: Process) -> None:
    lock = process.lock_object(LOCK, process.owner, 2)
    process.sleeps_for(lock)
    assert process.parked() == Parked(lock, LOCK, "owned", process.owner)
    assert process.tid_of(process.owner) == 101


def test_lock_that_is_acquired_or_released_at_this_moment(process: Process) -> None:
    lock = process.lock_object(LOCK)
    process.sleeps_for(lock)
    assert process.parked() == Parked(lock, LOCK, "free")
    process.own(lock, 0, 1)
    assert process.parked() == Parked(lock, LOCK, "unknown")
    # not possible
    process.own(lock, process.owner, 0)
    assert process.parked() == Parked(lock, LOCK, "unknown", process.owner)


def test_owner_that_has_ended(process: Process) -> None:
    gone = process.java_thread(0, ENDED)
    lock = process.lock_object(LOCK, gone, 1)
    process.sleeps_for(lock)
    assert process.parked() == Parked(lock, LOCK, "left", gone)
    assert process.tid_of(gone) is None
    not_begun = process.java_thread(0, 0)
    process.own(lock, not_begun, 1)
    assert process.parked() == Parked(lock, LOCK, "owned", not_begun)


@pytest.mark.parametrize("name", ["java.util.concurrent.Semaphore$NonfairSync", "java.util.concurrent.FutureTask"])
def test_objects_without_owner(name: str, process: Process) -> None:
    blocker = process.new(name)
    process.sleeps_for(blocker)
    assert process.parked() == Parked(blocker, name)


def test_park_without_object(process: Process) -> None:
    assert process.parked() == Parked(0)


def test_lock_of_a_class_of_the_program(process: Process) -> None:
    lock = process.lock_object("app.Mutex", process.owner, 1)
    process.sleeps_for(lock)
    assert process.parked() == Parked(lock, "app.Mutex", "claimed", process.owner)


@pytest.mark.parametrize("shared", [False, True])
def test_writer_of_a_read_write_lock(shared: bool, process: Process) -> None:
    half = 32 if process.version == "25" else 16
    # it reads, too
    lock = process.lock_object(RWLOCK, process.owner, 1 | 3 << half)
    process.wait_for(lock, (process.owner, not shared), (process.waiter, shared), (process.java_thread(0), not shared))
    process.sleeps_for(lock)
    assert process.parked() == Parked(lock, RWLOCK, "owned", process.owner, 0, shared)


def test_readers_of_a_read_write_lock(process: Process) -> None:
    half = 32 if process.version == "25" else 16
    lock = process.lock_object(RWLOCK, 0, 3 << half)
    process.wait_for(lock, (process.waiter, False))
    process.sleeps_for(lock)
    assert process.parked() == Parked(lock, RWLOCK, "read", 0, 3, False)
    process.set(lock, f"{LOCKS}ReentrantReadWriteLock$Sync", "firstReader", process.owner)
    assert process.parked() == Parked(lock, RWLOCK, "read", process.owner, 3, False)
    process.set(lock, f"{LOCKS}ReentrantReadWriteLock$Sync", "firstReader", process.java_thread(0, ENDED))
    found = process.parked()
    assert found is not None
    assert (found.lock, found.readers) == ("left", 3)
    process.own(lock, 0, 0)
    assert process.parked() == Parked(lock, RWLOCK, "free", shared=False)
    # it is being acquired
    process.own(lock, 0, 1)
    assert process.parked() == Parked(lock, RWLOCK, "unknown", shared=False)


def test_read_write_lock_whose_queue_lacks_the_thread(process: Process) -> None:
    lock = process.lock_object(RWLOCK, process.owner, 1)
    process.sleeps_for(lock)
    assert process.parked() is None
    process.wait_for(lock, (process.owner, False))
    assert process.parked() is None


def test_queue_that_is_a_circle(process: Process) -> None:
    base = AQLS if process.version == "25" else AQS
    lock = process.lock_object(RWLOCK, process.owner, 1)
    process.wait_for(lock, (process.owner, False))
    tail = process.new(f"{base}$Node")
    process.set(tail, f"{base}$Node", "prev", tail)
    process.set(lock, base, "tail", tail)
    process.sleeps_for(lock)
    assert process.parked() is None


def test_condition(process: Process) -> None:
    lock, condition = process.lock_object(LOCK, process.owner, 1), process.new(CONDITION)
    process.set(condition, CONDITION, "this$0", lock)
    process.sleeps_for(condition)
    assert process.parked() == Parked(condition, CONDITION)
    process.wait_for(lock, (process.owner, False))
    assert process.parked() == Parked(condition, CONDITION)
    # it was notified
    process.wait_for(lock, (process.waiter, False))
    assert process.parked() == Parked(lock, LOCK, "owned", process.owner)


@ALL
@pytest.mark.parametrize("status", [RUNS, SLEEPS, ENDED])
def test_thread_that_is_not_in_park(version: str, status: int) -> None:
    process = Process(version, status=status)
    process.sleeps_for(process.lock_object(LOCK, process.owner, 1))
    assert process.parked() is None


def test_object_of_another_thread(process: Process) -> None:
    """While objects are moved, a reference may lead to another object."""
    process.sleeps_for(process.lock_object(LOCK, process.owner, 1))
    assert process.parked() is not None
    process.set(process.waiter, THREAD, "eetop", process.threads[0])
    assert process.parked() is None


def test_owner_that_is_no_thread(process: Process) -> None:
    lock = process.lock_object(LOCK, process.new("java.util.Vector"), 1)
    process.sleeps_for(lock)
    assert process.parked() is None


@pytest.mark.parametrize("version", ["21", "25"])
def test_virtual_threads(version: str) -> None:
    process = Process(version)
    virtual = process.java_thread(0, RUNS, "java.lang.VirtualThread")
    lock = process.lock_object(LOCK, virtual, 1)
    process.sleeps_for(lock)
    assert process.parked() == Parked(lock, LOCK, "owned", virtual)
    # it runs in no thread, in one, in two
    assert process.tid_of(virtual) is None
    process.refer(process.threads[0], "JavaThread._vthread", virtual)
    assert process.tid_of(virtual) == 101
    process.refer(process.threads[1], "JavaThread._vthread", virtual)
    assert process.tid_of(virtual) is None


@pytest.mark.parametrize("version", ["21", "25"])
def test_virtual_thread_that_parks_its_carrier(version: str) -> None:
    process = Process(version)
    virtual, lock = process.java_thread(0, RUNS, "java.lang.VirtualThread"), process.lock_object(LOCK, process.owner, 1)
    process.set(virtual, THREAD, "parkBlocker", lock)
    process.refer(process.threads[1], "JavaThread._vthread", virtual)
    assert process.parked() == Parked(lock, LOCK, "owned", process.owner)


@pytest.mark.parametrize(("version", "generational"), [("11", None), ("17", None), ("21", False), ("21", True),
                                                       ("25", None)])
def test_references_of_zgc_that_may_be_out_of_date(version: str, generational: bool | None) -> None:
    process = Process(version, collector="UseZGC", generational=generational)
    lock = process.lock_object(LOCK, process.owner, 1)
    process.sleeps_for(lock)
    good = Parked(lock, LOCK, "owned", process.owner)
    assert process.parked() == good
    process.set(lock, f"{LOCKS}AbstractOwnableSynchronizer", "exclusiveOwnerThread", process.owner, stale=True)
    assert process.parked() is None
    process.own(lock, process.owner, 1)
    process.set(process.waiter, THREAD, "parkBlocker", lock, stale=True)
    assert process.parked() is None
    process.sleeps_for(lock)
    assert process.parked() == good
    process.refer(process.threads[1], "JavaThread._threadObj", process.waiter, stale=True)
    assert process.parked() is None


@ALL
def test_memory_that_is_damaged(version: str) -> None:
    process = Process(version)
    lock = process.lock_object(LOCK, process.owner, 1)
    process.sleeps_for(lock)
    for at in (process.waiter, lock, process.owner):
        before = process.memory.read(at, 16)
        process.memory.write(at, b"\x55" * 16)
        assert process.parked() is None
        process.memory.write(at, before)
    assert process.parked() is not None


def test_noise_is_bounded() -> None:
    memory = NoiseMemory(5)
    table = FakeJavaHeap("21").table()
    objects = Objects(memory, table, Encoding(None, (0, 0), False), lambda at: True)
    thread = hotspot.JavaThread(0x1_0000, 1, 1, 4, (0x1000, 0x2000), 0, 0, None, ())
    parking = Parking(memory, table, objects, (thread,))
    for address in range(0x1_0000, 0x1_2000, 8):
        parking.find_thread(address)
        try:
            parking._waiters(address, AQS)
        except GdbextError:
            pass
    assert parking.read(thread) is None
    assert memory.bytes_read < 1 << 28
