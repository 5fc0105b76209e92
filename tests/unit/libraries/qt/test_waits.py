from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import pytest

from gdbext.arch import x86_64
from gdbext.glibc.futex import FutexWait
from gdbext.inferior.protocol import Module, Section, Symbol, ThreadRef
from gdbext.libraries.qt.waits import Qt
from gdbext.locks.seen import MENTIONS, READERS, UNKNOWN, NotRecorded, RecordedDescriptor, SeenLock
from gdbext.model import DERIVED, EXCLUSIVE, INFERRED, SHARED
from gdbext.model.reasons import because
from gdbext.threads.threads import SeenThread
from tests.support.fake_memory import FakeMemory
from tests.support.fake_qt import FakeQt
from tests.support.scenes import scene_of

STACK, STEP, POINTERS = 0x7F00_0000_0000, 0x1_0000, 0x7F10_0000_0000
APP, LIBC, CORE = 0x40_0000, 0x60_0000, 0x70_0000
TABLE = CORE + 0x4000  # of virtual functions
NAMES = ("QBasicMutex::lockInternal()", "QRecursiveMutex::tryLock(int)", "QSemaphore::acquire(int)",
         "QMetaObject::invokeMethodImpl(QObject*)", "QThread::wait(QDeadlineTimer)", "QLatch::waitInternal(int)",
         "QReadWriteLock::tryLockForRead(int)", "QWaitCondition::wait(QMutex*, QDeadlineTimer)")
LOCK, TRY, ACQUIRE, INVOKE, WAIT, LATCH, READ, CONDITION = (CORE + 0x100 * i + 0x10 for i in range(len(NAMES)))
LOCAL = CORE + 0x900  # of a function without a name
CALLER = APP + 0x20


class Process:
    """Threads in QtCore; the parts of `Target`, `Code` and `Threads` that `Qt` uses."""

    architecture, cpu = "x86_64", x86_64

    def __init__(self, major: int = 6, library: str = "") -> None:
        self.memory = FakeMemory({at: bytes(0x8000) for at in (APP, LIBC, CORE)})
        self.qt = FakeQt(self.memory, major)
        self.modules = [Module(path, (Section(".text", at, at + 0x8000),), at == APP)
                        for path, at in (("/app/server", APP), ("/lib/libc.so.6", LIBC),
                                         (f"/lib/{library or f'libQt{major}Core.so.{major}'}", CORE))]
        self.seen: list[SeenThread] = []
        self.frames: dict[int, list[tuple[int, int]]] = {}
        self.all_available = True

    def thread(self, pcs: Sequence[int], words: Sequence[int] = ()) -> int:
        """A thread with a frame for each program counter, and pointers on its stack."""
        number = len(self.seen) + 1
        low = STACK + number * STEP
        self.memory.map(low, bytes(0x1000))
        self.memory.u64(low + 0x20, *words)
        self.seen.append(SeenThread(ThreadRef(number, 100 + number, None), x86_64,
                                    {"rip": pcs[0], "rsp": low}, self.pthread(number)))
        self.frames[number] = [(pc, low + 64 * i) for i, pc in enumerate(pcs)]
        return number

    @staticmethod
    def pthread(number: int) -> int:
        return POINTERS + number * STEP

    def lock(self, pcs: Sequence[int], word: int, expected: int = 0) -> SeenLock | None:
        """What a new thread waits for that sleeps on a word."""
        number = self.thread([LIBC + 0x110, *pcs])
        return self.view().find_lock(self[number], FutexWait(word, 0x80, expected, False))

    def view(self) -> Qt:
        return Qt(scene_of(self))

    # -- what a Target, a Code and Threads offer --

    def registers(self, thread: ThreadRef, names: Sequence[str] = ()) -> Mapping[str, int]:
        return {}

    def unwind(self, thread: ThreadRef, registers: Mapping[str, int]) -> list[tuple[int, int]]:
        return self.frames[thread.number]

    def module(self, address: int) -> Module | None:
        return next((module for module in self.modules if module.contains(address)), None)

    def function_range(self, address: int) -> None:
        return None

    def disassemble(self, start: int, end: int) -> list[tuple[int, int, str]]:
        return []

    def symbol(self, address: int, index: int = 0) -> Symbol:
        slot = (address - CORE) // 0x100
        return Symbol(NAMES[slot] if 0 <= slot < len(NAMES) else None)

    @property
    def number_of_pthread(self) -> dict[int, int]:
        return {seen.pthread: seen.number for seen in self.seen}

    def __iter__(self) -> Iterator[SeenThread]:
        return iter(self.seen)

    def __getitem__(self, number: int) -> SeenThread:
        return self.seen[number - 1]


def holders(lock: SeenLock | None) -> list[tuple[int, str]]:
    assert lock is not None
    return [(holder.thread, holder.evidence) for holder in lock.holders]


@pytest.mark.parametrize("library", ["libQt6Core.so.6", "libQt5Core-39545cc7.so.5.15.0"])
def test_mutex(library: str) -> None:
    process = Process(library=library)
    at = process.qt.alloc(64) + 32
    process.memory.u64(at, 3)
    why = because("records-no-owner", what="qt-mutex")
    assert process.lock([LOCK, CALLER], at, 3) == SeenLock(
        "qt-mutex", at, "locked", held=NotRecorded(MENTIONS), why=why)
    process.memory.u64(at, 0)
    free = process.lock([LOCK, CALLER], at, 3)
    assert free is not None
    assert (free.state, free.held) == ("free", UNKNOWN)


def test_word_that_is_no_mutex() -> None:
    process = Process()
    at = process.qt.alloc(64)
    process.memory.u64(at, 0x1_0000_0003)
    assert process.lock([LOCK, CALLER], at, 3) is None
    assert process.lock([LOCK, CALLER], 0x10, 3) is None  # unreadable


@pytest.mark.parametrize("pcs", [[CALLER], [CALLER, LOCK]])
def test_thread_that_does_not_sleep_in_qt(pcs: Sequence[int]) -> None:
    process = Process()
    at = process.qt.alloc(64)
    process.memory.u64(at, 3)
    assert process.lock(pcs, at, 3) is None


def test_process_without_qt() -> None:
    process = Process(library="libother.so")
    at = process.qt.alloc(64)
    process.memory.u64(at, 3)
    assert process.lock([LOCK, CALLER], at, 3) is None
    assert process.view().find_thread_end(process[1], at) is None


@pytest.mark.parametrize(("major", "pcs"), [(6, [LOCK, TRY, CALLER]), (5, [LOCK, LOCAL, CALLER])])
@pytest.mark.parametrize("is_here", [True, False])
def test_recursive_mutex_records_its_owner(major: int, pcs: Sequence[int], is_here: bool) -> None:
    process = Process(major)
    owner = process.thread([APP])
    at = process.qt.alloc(64) + 32
    ident = process.pthread(owner if is_here or major == 5 else 77)
    process.memory.u64(at - 24, 1, ident, 0, 3)
    lock = process.lock(pcs, at, 3)
    assert lock is not None
    assert (lock.kind, lock.state) == ("qt-recursive-mutex", "locked")
    if is_here or major == 5:
        assert holders(lock) == [(owner, "recorded")]
    else:
        assert lock.held == RecordedDescriptor(ident)


def test_recursive_mutex_that_is_about_to_be_locked() -> None:
    process = Process()
    owner = process.thread([APP])
    at = process.qt.alloc(64) + 32
    process.memory.u64(at - 16, process.pthread(owner), 0, 0)
    lock = process.lock([LOCK, TRY, CALLER], at, 3)
    assert lock is not None
    assert (lock.state, lock.held) == ("free", UNKNOWN)


@pytest.mark.parametrize("half", [0, 4])
def test_semaphore(half: int) -> None:
    process = Process()
    at = process.qt.alloc(64)
    assert process.lock([ACQUIRE, CALLER], at + half, 0x8000_0000) == SeenLock(
        "qt-semaphore", at, "waited for", why=because("semaphore-has-no-owner"))


@pytest.mark.parametrize(("major", "wait"), [(5, ACQUIRE), (6, ACQUIRE), (6, LATCH)])
def test_call_that_is_queued(major: int, wait: int) -> None:
    process = Process(major)
    latch = STACK + 2 * STEP + 0x100
    data = process.qt.thread(process.pthread(1), (process.qt.event(latch),))
    receiver = process.qt.lives_in(process.qt.object(), data)
    window = process.thread([APP], [receiver])
    lock = process.lock([wait, INVOKE, CALLER], latch)
    assert lock is not None
    assert (lock.kind, lock.address, lock.state, holders(lock)) == ("qt-call", latch, "queued", [(window, DERIVED)])


@pytest.mark.parametrize(("kind", "found"), [(TABLE, True), (0, False), (APP + 0x4000, False)])
def test_call_that_is_handled(kind: int, found: bool) -> None:
    process = Process()
    latch = STACK + 2 * STEP + 0x100
    window = process.thread([APP], [process.qt.event(latch, kind)])
    lock = process.lock([LATCH, INVOKE, CALLER], latch)
    assert lock is not None
    assert (lock.state, holders(lock)) == (("handled", [(window, INFERRED)]) if found else ("waited for", []))


def test_call_that_two_threads_may_handle() -> None:
    process = Process()
    latch = STACK + 3 * STEP + 0x100
    event = process.qt.event(latch, TABLE)
    one, two = process.thread([APP], [event]), process.thread([APP], [event])
    lock = process.lock([LATCH, INVOKE, CALLER], latch)
    assert lock is not None
    assert (lock.holders, lock.candidates, lock.why) == ((), (one, two), because("qt-call-unknown"))


def test_end_of_a_thread() -> None:
    process = Process()
    data = process.qt.thread(process.pthread(1))
    condition = process.qt.waits_for_end(data)
    thread = int.from_bytes(process.memory.read(data, 8), "little")
    clerk = process.thread([APP])
    waiter = process.thread([LIBC + 0x110, WAIT, CALLER], [thread])
    lock = process.view().find_thread_end(process[waiter], condition)
    assert lock is not None
    assert (lock.kind, lock.address, holders(lock)) == ("thread-exit", process.pthread(1), [(clerk, "recorded")])
    assert process.view().find_thread_end(process[waiter], condition + 8) is None
    process.frames[waiter] = [(LIBC + 0x110, STACK), (CALLER, STACK)]
    assert process.view().find_thread_end(process[waiter], condition) is None


def test_threads_that_cannot_be_read_may_handle_a_call() -> None:
    process = Process()
    latch = STACK + 2 * STEP + 0x100
    process.thread([APP], [process.qt.event(latch, TABLE)])
    process.all_available = False
    lock = process.lock([LATCH, INVOKE, CALLER], latch)
    assert lock is not None
    assert (lock.holders, lock.candidates) == ((), (1,))
    process.seen[0] = replace(process[1], unavailable=because("text", text="gone"))
    lock = process.view().find_lock(process[2], FutexWait(latch, 0x80, 0, False))
    assert lock is not None
    assert lock.candidates == ()


@pytest.mark.parametrize("major", [5, 6])
@pytest.mark.parametrize("pcs", [[READ, CALLER], [CONDITION, LOCAL, CALLER]])
def test_rwlock_counts_its_readers(major: int, pcs: Sequence[int]) -> None:
    process = Process(major)
    at, private, _, condition = process.qt.rwlock(readers=2, waiting=(1, 1))
    waiter = process.thread([LIBC + 0x110, *pcs], [private, at])
    lock = process.view().find_rwlock(process[waiter], condition)
    assert lock == SeenLock("qt-rwlock", at, "read-locked", SHARED, held=NotRecorded(READERS, 2))
    assert process.view().find_rwlock(process[waiter], condition + 8) is None


@pytest.mark.parametrize("is_here", [True, False])
@pytest.mark.parametrize("writes", [True, False])
def test_recursive_rwlock_records_its_owners(is_here: bool, writes: bool) -> None:
    process = Process()
    owner = process.thread([APP])
    ident = process.pthread(owner if is_here else 77)
    at, private, condition, _ = process.qt.rwlock(
        readers=int(not writes), writers=int(writes), waiting=(0, 1), recursive=True, writer=ident if writes else 0,
        reading=() if writes else (ident,))
    lock = process.view().find_rwlock(process[process.thread([LIBC + 0x110, READ, CALLER], [private, at])], condition)
    assert lock is not None
    assert (lock.address, lock.state) == (at, "write-locked" if writes else "read-locked")
    if is_here:
        assert [(each.thread, each.mode) for each in lock.holders] == [(owner, EXCLUSIVE if writes else SHARED)]
    else:
        assert lock.held == RecordedDescriptor(ident)


def test_rwlock_that_is_about_to_be_taken() -> None:
    process = Process()
    at, private, condition, _ = process.qt.rwlock(waiting=(0, 1))
    lock = process.view().find_rwlock(process[process.thread([LIBC + 0x110, READ, CALLER], [private, at])], condition)
    assert lock == SeenLock("qt-rwlock", at, "free", why=because("lock-about-to-be-taken"))


def test_rwlock_whose_address_another_thread_has() -> None:
    process = Process()
    at, private, condition, _ = process.qt.rwlock(writers=1, waiting=(0, 1))
    process.thread([APP], [at])
    waiter = process.thread([LIBC + 0x110, READ, CALLER], [private])
    lock = process.view().find_rwlock(process[waiter], condition)
    assert lock is not None
    assert lock.address == at


@pytest.mark.parametrize("pcs", [[READ, CALLER], [CONDITION, LOCAL, CALLER]])
def test_rwlock_whose_address_no_thread_has(pcs: Sequence[int]) -> None:
    process = Process()
    at, private, condition, _ = process.qt.rwlock(writers=1, waiting=(0, 1))
    waiter = process.thread([LIBC + 0x110, *pcs], [private])
    # a copy of the pointer in a frame of Qt, and one in its variables
    process.memory.u64(TABLE, private)
    process.memory.u64(STACK + waiter * STEP + 0x28, STACK + waiter * STEP + 0x20, TABLE)
    lock = process.view().find_rwlock(process[waiter], condition)
    assert (lock.address if lock is not None else None) == (private if READ in pcs else None)


def test_condition_variables_of_a_program_are_no_rwlock() -> None:
    process = Process()
    at, private, condition, _ = process.qt.rwlock(writers=1, waiting=(0, 1))
    for pcs in ([CONDITION, CALLER], [CONDITION, LOCAL, WAIT, CALLER], [CALLER]):
        waiter = process.thread([LIBC + 0x110, *pcs], [private, at])
        assert process.view().find_rwlock(process[waiter], condition) is None
