from __future__ import annotations

from collections.abc import Mapping

import pytest

from gdbext.arch import x86_64
from gdbext.elf.dynamic import DynamicSymbol
from gdbext.inferior.protocol import Module, Section, Symbol, ThreadRef
from gdbext.libraries.java import waits as java
from gdbext.libraries.java.hotspot import CONDVAR_WAIT, MONITOR_WAIT, OBJECT_WAIT
from gdbext.libraries.java.waits import Java
from gdbext.locks.seen import UNKNOWN, Orphaned, RecordedTid, SeenLock, held_by, may_be_held_by
from gdbext.model import DERIVED, RECORDED, SHARED, Evidence
from gdbext.model.reasons import because
from gdbext.threads.threads import SeenThread, Threads
from tests.support.fake_hotspot import LIBRARY
from tests.support.fake_java_heap import ENDED, LOCKS, PARKED, FakeJavaHeap
from tests.support.scenes import scene_of

APP, LIBC, PID = 0x40_0000, 0x60_0000, 101
WAIT, PARK = LIBC + 0x10, LIBRARY + 0x10
VECTOR = "of java.util.Vector"
RUNNABLE = 2


class Process:
    """Threads that sleep in a Java machine; the parts of `Target` and `Code` that `Java` uses.

    Thread 1 waits for a monitor. Thread 2 may be its owner.
    """

    architecture, cpu = "x86_64", x86_64

    def __init__(self, monkeypatch: pytest.MonkeyPatch, version: str = "17", library: str = "libjvm.so") -> None:
        self.java = FakeJavaHeap(version)
        self.memory = self.java.memory
        for at in (APP, LIBC):
            self.memory.map(at, bytes(0x1000))
        self.modules = [Module(path, (Section(".text", at, at + size),), at == APP) for path, at, size in (
            ("/app/server", APP, 0x1000), ("/lib/libc.so.6", LIBC, 0x1000), (f"/jdk/{library}", LIBRARY, 0x1000))]
        self.pcs = [WAIT, PARK, PARK + 0x10]
        self.tids = {1: 101, 2: 102}
        self.condition = self.java.park()
        self.looked_up: list[str] = []

        def find(_memory: object, _module: Module, name: str) -> DynamicSymbol | None:
            self.looked_up.append(name)
            at = self.java.variables.get(name)
            return DynamicSymbol(at, 8) if at is not None else None

        monkeypatch.setattr(java, "find_dynamic_symbol", find)

    @staticmethod
    def stack(number: int) -> tuple[int, int]:
        return 0x7E00_0000_0000 + number * 0x10_0000, 0x7E00_0008_0000 + number * 0x10_0000

    @staticmethod
    def pthread(number: int) -> int:
        return 0x7D00_0000 + 0x1000 * number

    def waits(self, state: int = MONITOR_WAIT, *, pending: int = 0, waiting: int = 0) -> None:
        """Add the record of thread 1."""
        self.java.thread(self.pthread(1), 101, self.stack(1), state, pending=pending, waiting=waiting, owner_id=31)

    def sleeps_for(self, blocker: int, status: int = PARKED) -> int:
        """Add the record of thread 1, which is in `park`; returns its object."""
        return self.java.parks(self.pthread(1), 101, self.stack(1), blocker, owner_id=31, status=status)

    def other_object(self, number: int = 2, tid: int = 102) -> int:
        """Add a record like that of thread 2, with its object; returns the object."""
        return self.java.java_thread(self.other(number, tid))

    def other(self, number: int = 2, tid: int = 102) -> int:
        """Add a record like that of thread 2; returns its address."""
        return self.java.thread(self.pthread(number), tid, self.stack(2), RUNNABLE, owner_id=32)

    def find(self, condition: int | None = None) -> SeenLock | None:
        seen = [SeenThread(ThreadRef(number, tid, None), x86_64, {"rip": WAIT, "rsp": self.stack(number)[0] + 0x100},
                           self.pthread(number), tid) for number, tid in self.tids.items()]
        return Java(scene_of(self, Threads(seen, PID))).find_of_condition(
            seen[0], self.condition if condition is None else condition)

    def unwind(self, thread: ThreadRef, registers: Mapping[str, int]) -> list[tuple[int, int]]:
        return [(pc, registers["rsp"] + 64 * i) for i, pc in enumerate(self.pcs)]

    def module(self, address: int) -> Module | None:
        return next((module for module in self.modules if module.contains(address)), None)

    def symbol(self, address: int, index: int = 0) -> Symbol:
        return Symbol(None)


@pytest.mark.parametrize(("version", "evidence", "why"), [
    ("11", RECORDED, None), ("17", RECORDED, None), ("21", DERIVED, because("java-lock-stack")),
    ("25", DERIVED, because("java-lock-stack"))])
def test_monitor_of_another_thread(version: str, evidence: Evidence, why: object,
                                   monkeypatch: pytest.MonkeyPatch) -> None:
    process = Process(monkeypatch, version)
    owner = process.other()
    monitor, subject = process.java.monitor(owner if evidence == RECORDED else 1)
    process.java.lock(owner, subject)
    process.waits(pending=monitor)
    lock = process.find()
    assert lock is not None
    assert (lock.kind, lock.address, lock.state, lock.name) == ("java-monitor", monitor, "locked", VECTOR)
    assert lock.held == held_by((2,), evidence, lock.why)
    assert lock.why == why
    # it retries, so its timeouts do not end the wait
    assert lock.repeats


@pytest.mark.parametrize("version", ["21", "25"])
def test_stack_of_locks_does_not_count_while_objects_are_moved(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    process = Process(monkeypatch, version)
    owner = process.other()
    monitor, subject = process.java.monitor(1)
    process.java.lock(owner, subject)
    process.waits(pending=monitor)
    process.memory.write(process.java.heap + process.java.offset("CollectedHeap._is_stw_gc_active"), b"\1")
    assert unproven(process.find(), 1)


def test_thread_enters_again_after_a_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    process = Process(monkeypatch)
    monitor, _ = process.java.monitor(process.other())
    process.waits(waiting=monitor)
    lock = process.find()
    assert lock is not None
    assert (lock.kind, lock.held) == ("java-monitor", held_by((2,)))


def test_wait_for_a_notification(monkeypatch: pytest.MonkeyPatch) -> None:
    process = Process(monkeypatch)
    monitor, _ = process.java.monitor(process.other())
    process.waits(OBJECT_WAIT, waiting=monitor)
    assert process.find() == SeenLock("java-condition", monitor, "waiting for a notification", name=VECTOR,
                                      why=because("java-condition-has-no-owner"))


def test_monitor_that_nobody_has(monkeypatch: pytest.MonkeyPatch) -> None:
    process = Process(monkeypatch)
    monitor, _ = process.java.monitor(0)
    process.waits(pending=monitor)
    lock = process.find()
    assert lock is not None
    assert (lock.state, lock.holders, lock.why) == ("free", (), because("lock-about-to-be-taken"))


def unproven(lock: SeenLock | None, word: int) -> bool:
    return (lock is not None and lock.state == "locked" and lock.held == UNKNOWN
            and lock.why == because("java-owner-unknown", word=word))


def test_owner_that_is_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    process = Process(monkeypatch)
    monitor, _ = process.java.monitor(0x5555_5550)
    process.waits(pending=monitor)
    process.other()
    assert unproven(process.find(), 0x5555_5550)


def test_owner_that_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """The owner of a monitor ended without notice, or fork left it behind."""
    process = Process(monkeypatch)
    monitor, _ = process.java.monitor(process.other(3, 99))
    process.waits(pending=monitor)
    lock = process.find()
    assert lock is not None
    assert (lock.held, lock.why) == (RecordedTid(99), None)


@pytest.mark.parametrize(("number", "tid"), [(2, 101), (3, 102)])
def test_owner_whose_descriptor_or_tid_another_thread_has(number: int, tid: int,
                                                         monkeypatch: pytest.MonkeyPatch) -> None:
    process = Process(monkeypatch)
    owner = process.other(number, tid)
    monitor, _ = process.java.monitor(owner)
    process.waits(pending=monitor)
    assert unproven(process.find(), owner)


def test_descriptor_of_an_earlier_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    process = Process(monkeypatch)
    monitor, _ = process.java.monitor(process.other())
    process.java.thread(process.pthread(1), 88, process.stack(1), RUNNABLE)
    process.waits(pending=monitor)
    lock = process.find()
    assert lock is not None
    assert lock.held == held_by((2,))


def test_thread_after_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its record has the TID that it had in the parent process."""
    process = Process(monkeypatch)
    monitor, _ = process.java.monitor(process.other(2, 55))
    process.tids = {1: 201}
    process.waits(pending=monitor)
    lock = process.find()
    assert lock is not None
    assert lock.held == RecordedTid(55)


@pytest.mark.parametrize("case", [
    "another library", "runs", "other event", "outside", "no record", "two records", "has it", "unreadable",
    "no monitor", "other stack"])
def test_other_waits(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    process = Process(monkeypatch, library="libjvm.so.1" if case == "another library" else "libjvm.so")
    monitor, _ = process.java.monitor(process.other())
    if case != "no record":
        process.waits(RUNNABLE if case == "runs" else MONITOR_WAIT, pending=0 if case == "no monitor" else monitor)
    if case == "outside":
        process.pcs = [WAIT, APP + 0x10, PARK]
    if case == "two records":
        process.waits(pending=monitor)
    if case == "has it":
        process.java.put(monitor, "ObjectMonitor._owner", process.java.threads[1])
    if case == "unreadable":
        process.java.put(process.java.threads[1], "JavaThread._current_pending_monitor", 0x10)
    if case == "other stack":
        process.java.put(process.java.threads[1], "JavaThread._stack_base", process.stack(2)[1])
    assert process.find(process.condition + 4 if case == "other event" else None) is None


def test_process_without_java_machine_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    process = Process(monkeypatch, library="libdriver.so")
    process.memory.reads.clear()
    assert process.find() is None
    assert (process.looked_up, process.memory.reads) == ([], [])


# -- LockSupport.park ----------------------------------------------------------------------------------------

VERSIONS = pytest.mark.parametrize("version", ["11", "17", "21", "25"])
LOCK, RWLOCK = f"{LOCKS}ReentrantLock$NonfairSync", f"{LOCKS}ReentrantReadWriteLock$FairSync"


@VERSIONS
def test_lock_of_another_thread(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    process = Process(monkeypatch, version)
    address = process.java.lock_object(LOCK, process.other_object(), 1)
    process.sleeps_for(address)
    assert process.find() == SeenLock("java-lock", address, "locked", held=held_by((2,)), name=f"of {LOCK}")


def test_lock_that_nobody_has(monkeypatch: pytest.MonkeyPatch) -> None:
    process = Process(monkeypatch)
    address = process.java.lock_object(LOCK)
    process.sleeps_for(address)
    assert process.find() == SeenLock("java-lock", address, "free", name=f"of {LOCK}",
                                      why=because("lock-about-to-be-taken"))


def test_lock_whose_owner_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that has acquired it has not yet written that."""
    process = Process(monkeypatch)
    process.sleeps_for(process.java.lock_object(LOCK, 0, 1))
    assert unproven(process.find(), 0)


def test_lock_whose_owner_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    process = Process(monkeypatch)
    address = process.java.lock_object(LOCK, process.java.java_thread(0, ENDED), 1)
    process.sleeps_for(address)
    assert process.find() == SeenLock("java-lock", address, "locked", name=f"of {LOCK}",
                                      held=Orphaned(because("thread-exited")))


def test_lock_whose_owner_fork_has_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    process = Process(monkeypatch)
    process.sleeps_for(process.java.lock_object(LOCK, process.other_object(3, 99), 1))
    lock = process.find()
    assert lock is not None
    assert (lock.held, lock.why) == (RecordedTid(99), None)


@pytest.mark.parametrize(("number", "tid"), [(2, 101), (3, 102)])
def test_lock_whose_owner_has_the_descriptor_or_tid_of_another_thread(
        number: int, tid: int, monkeypatch: pytest.MonkeyPatch) -> None:
    process = Process(monkeypatch)
    owner = process.other_object(number, tid)
    process.sleeps_for(process.java.lock_object(LOCK, owner, 1))
    assert unproven(process.find(), owner)


def test_lock_of_a_virtual_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    process = Process(monkeypatch, "25")
    native = process.other()
    process.java.java_thread(native)
    virtual = process.java.java_thread(0, name="java.lang.VirtualThread")
    process.sleeps_for(process.java.lock_object(LOCK, virtual, 1))
    assert unproven(process.find(), virtual)
    process.java.refer(native, "JavaThread._vthread", virtual)
    lock = process.find()
    assert lock is not None
    assert lock.held == held_by((2,))


def test_lock_of_a_class_of_the_program_has_a_candidate(monkeypatch: pytest.MonkeyPatch) -> None:
    process = Process(monkeypatch)
    owner = process.other_object()
    address = process.java.lock_object("app.Mutex", owner, 1)
    process.sleeps_for(address)
    assert process.find() == SeenLock("java-lock", address, "locked", name="of app.Mutex", held=may_be_held_by((2,)),
                                      why=because("java-owner-claimed"))


@VERSIONS
def test_read_write_lock(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    process = Process(monkeypatch, version)
    owner, reader = process.other_object(), 1 << (32 if version == "25" else 16)
    address = process.java.lock_object(RWLOCK, owner, 1)
    waiter = process.sleeps_for(address)
    name = f"of {RWLOCK}"
    process.java.wait_for(address, (waiter, False))
    assert process.find() == SeenLock("java-rwlock", address, "write-locked", held=held_by((2,)), name=name)
    process.java.own(address, 0, 2 * reader)
    assert process.find() == SeenLock("java-rwlock", address, "read-locked", name=name,
                                      why=because("readers-counted", count=2))
    process.java.set(address, f"{LOCKS}ReentrantReadWriteLock$Sync", "firstReader", owner)
    assert process.find() == SeenLock("java-rwlock", address, "read-locked", name=name,
                                      why=because("java-first-reader", count=2), held=held_by((2,), mode=SHARED))
    process.java.own(address, 0, reader)
    assert process.find() == SeenLock("java-rwlock", address, "read-locked", name=name,
                                      held=held_by((2,), mode=SHARED))
    # it has the lock as a reader
    process.java.set(address, f"{LOCKS}ReentrantReadWriteLock$Sync", "firstReader", waiter)
    lock = process.find()
    assert lock is not None
    assert lock.held == held_by((1,), mode=SHARED)


def test_reader_of_a_read_write_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    process = Process(monkeypatch)
    owner = process.other_object()
    address = process.java.lock_object(RWLOCK, owner, 1)
    process.java.wait_for(address, (process.sleeps_for(address), True))
    assert process.find() == SeenLock("java-rwlock", address, "write-locked", SHARED, held=held_by((2,)),
                                      name=f"of {RWLOCK}")
    # a writer is before it, which may have a timeout
    process.java.own(address, 0, 1 << 16)
    process.java.set(address, f"{LOCKS}ReentrantReadWriteLock$Sync", "firstReader", owner)
    assert process.find() == SeenLock("java-park", address, "parked", name=f"of {RWLOCK}",
                                      why=because("park-has-no-owner"))


def test_park_for_an_object_without_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    process = Process(monkeypatch)
    name = "java.util.concurrent.Semaphore$NonfairSync"
    blocker = process.java.new(name)
    process.sleeps_for(blocker)
    assert process.find() == SeenLock("java-park", blocker, "parked", name=f"of {name}",
                                      why=because("park-has-no-owner"))


def test_park_without_object(monkeypatch: pytest.MonkeyPatch) -> None:
    process = Process(monkeypatch)
    process.sleeps_for(0)
    assert process.find() == SeenLock("java-park", process.condition, "parked", why=because("park-has-no-owner"))


@pytest.mark.parametrize("case", ["sleeps", "moves", "without object", "has it", "other state"])
def test_other_waits_on_a_condition_variable(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    process = Process(monkeypatch)
    address = process.java.lock_object(LOCK, process.other_object(), 1)
    if case == "without object":
        process.waits(CONDVAR_WAIT)
    else:
        waiter = process.sleeps_for(address, 0xE1 if case == "sleeps" else PARKED)
        if case == "has it":
            process.java.own(address, waiter, 1)
    if case == "moves":
        process.memory.write(process.java.heap + process.java.offset("CollectedHeap._is_gc_active"), b"\1")
    if case == "other state":
        process.memory.u32(int.from_bytes(process.memory.read(
            process.java.threads[1] + process.java.offset("JavaThread._osthread"), 8), "little"), RUNNABLE)
    assert process.find() is None
