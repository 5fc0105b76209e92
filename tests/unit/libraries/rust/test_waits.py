from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence

import pytest

from gdbext.arch import x86_64
from gdbext.glibc.futex import FutexWait
from gdbext.inferior.protocol import Module, Section, Symbol, ThreadRef
from gdbext.libraries.rust.waits import Rust
from gdbext.locks.seen import MENTIONS, READERS, UNKNOWN, Held, NotRecorded, SeenLock
from gdbext.model.reasons import because
from gdbext.threads.threads import SeenThread
from tests.support.fake_elf import fake_elf
from tests.support.scenes import scene_of

STACK, HEAP, APP, LIBC = 0x7F00_0000_0000, 0x5555_0000_0000, 0x40_0000, 0x60_0000
SYSCALL = LIBC + 0x2000
CALLER = APP + 0x120
TABLE, BUCKETS, DATA, LOCK = HEAP + 0x100, HEAP + 0x1000, HEAP + 0x200, HEAP + 0x300
VARIABLES, CONSTANTS = APP + 0x4000, APP + 0x6000
BITS = 3
WRITTEN, WAITING_READERS, WAITING_WRITERS = (1 << 30) - 1, 1 << 30, 1 << 31
# up to the call of ``syscall``; the next instruction is at CALLER
CONSTANT = "mov    ${value},%ecx"
VARIABLE = "mov    (%rbx),%ecx"


class Process:
    """A thread in a function of Rust code that has called ``syscall``."""

    architecture, cpu = "x86_64", x86_64

    def __init__(self, name: str | None = None, code: Sequence[str] = ()) -> None:
        self.memory, libc = fake_elf(LIBC, {"syscall": (SYSCALL - LIBC, 0x29)}, "/lib/libc.so.6",
                                     (Section(".text", SYSCALL, SYSCALL + 0x1000),))
        for at, size in ((SYSCALL, 0x1000), (APP, 0x8000), (HEAP, 0x4000)):
            self.memory.map(at, bytes(size))
        self.modules = [libc, Module("/app/server", (
            Section(".text", APP, APP + 0x1000), Section(".bss", VARIABLES, VARIABLES + 0x1000),
            Section(".rodata", CONSTANTS, CONSTANTS + 0x1000)), True)]
        self.name, self.code = name, code
        self.sleepers: set[int] = set()
        self.pcs = [SYSCALL + 0x19, CALLER]
        self.memory.write(CONSTANTS + 0x80, b"/rustc/1/library/std/src/sys/sync/once.rs")
        self.memory.write(TABLE, struct.pack("<QQQI", BUCKETS, 1 << BITS, 0, BITS))
        self.memory.u64(VARIABLES + 0x40, TABLE)

    def park(self, key: int, token: int = 0) -> None:
        """Put the thread into the queue of a key of parking_lot."""
        self.memory.write(DATA, struct.pack("<QQQQI", key, 0, 0, token, 1))
        index = key * 0x9E3779B97F4A7C15 % (1 << 64) >> 64 - BITS
        self.memory.u64(BUCKETS + 64 * index, 0, DATA, DATA)

    def lock(self, word: int, op: int, expected: int) -> SeenLock | None:
        seen = SeenThread(ThreadRef(1, 101, None), x86_64, {"rip": self.pcs[0], "rsp": STACK}, 0)
        return Rust(scene_of(self, (), self.sleepers)).find_lock(seen, FutexWait(word, op, expected, False))

    # -- what a Target and a Code offer --

    def unwind(self, thread: ThreadRef, registers: Mapping[str, int]) -> list[tuple[int, int]]:
        return [(pc, STACK + 64 * i) for i, pc in enumerate(self.pcs)]

    def module(self, address: int) -> Module | None:
        return next((module for module in self.modules if module.contains(address)), None)

    def symbol(self, address: int, index: int = 0) -> Symbol:
        return Symbol(self.name if APP <= address < APP + 0x1000 else None)

    def function_range(self, pc: int) -> tuple[int, int] | None:
        return APP + 0x100, APP + 0x180

    def disassemble(self, start: int, end: int) -> Iterator[tuple[int, int, str]]:
        texts = [*self.code, "call   *%rax"]
        yield from ((CALLER - 4 * (len(texts) - i), 4, text) for i, text in enumerate(texts))
        yield CALLER, 4, "test   %rax,%rax"


def parked(process: Process) -> tuple[str, int, str, str, Held] | None:
    lock = process.lock(DATA + 32, 0x80, 1)
    return (lock.kind, lock.address, lock.state, lock.mode, lock.held) if lock else None


@pytest.mark.parametrize(("key", "token", "state", "expected"), [
    (LOCK + 1, 0, 3 << 8, ("parking-lot-mutex", LOCK + 1, "locked", "exclusive", NotRecorded(MENTIONS))),
    (LOCK, 0, 2, ("parking-lot-mutex", LOCK, "free", "exclusive", UNKNOWN)),
    (LOCK, 0, 12, ("parking-lot-once", LOCK, "in progress", "exclusive", NotRecorded(MENTIONS))),
    (LOCK, 0, HEAP + 0x3F0, ("parking-lot-condvar", LOCK, "waiting for a signal", "exclusive", UNKNOWN)),
    (LOCK, 16, 9, ("parking-lot-rwlock", LOCK, "write-locked", "shared", NotRecorded(MENTIONS))),
    (LOCK + 1, 8, 2 << 4 | 10, ("parking-lot-rwlock", LOCK, "read-locked", "exclusive", NotRecorded(READERS, 2))),
    (LOCK, 20, 1, ("parking-lot-rwlock", LOCK, "free", "shared", UNKNOWN)),
    # locks of other crates that use the same queues
    (LOCK, 0, 6, None), (LOCK, 0, 1, None), (LOCK, 8, 8, None), (LOCK, 7, 3, None),
    # a mutex and a condition variable
    (LOCK, 0, HEAP + 0x303, None),
])
def test_parking_lot_without_names(
        key: int, token: int, state: int, expected: tuple[str, int, str, str, Held] | None) -> None:
    process = Process()
    process.memory.u64(LOCK, state)
    process.park(key, token)
    assert parked(process) == expected


@pytest.mark.parametrize(("name", "state", "kind"), [
    ("parking_lot::raw_mutex::RawMutex::lock_slow", 3, "parking-lot-mutex"),
    ("parking_lot::condvar::Condvar::wait_until_internal", HEAP + 0x3F0, "parking-lot-condvar"),
    ("parking_lot::condvar::Condvar::wait_until_internal", HEAP + 0x303, "parking-lot-condvar"),
    ("parking_lot::condvar::Condvar::wait_until_internal", 3, "parking-lot-mutex"),  # moved to the mutex
    ("parking_lot::once::Once::call_once_slow", 12, "parking-lot-once"),
    ("parking_lot::once::Once::call_once_slow", 3, None),
    ("parking_lot::raw_rwlock::RawRwLock::lock_shared_slow", 3, None),
    ("dashmap::lock::RawRwLock::lock_exclusive_slow", 3, None),
])
def test_parking_lot_with_names(name: str, state: int, kind: str | None) -> None:
    process = Process(name)
    process.memory.u64(LOCK, state)
    process.park(LOCK)
    found = parked(process)
    assert (found[0] if found else None) == kind


def test_thread_that_no_table_has() -> None:
    process = Process()
    process.memory.u64(LOCK, 3)
    process.park(LOCK)
    process.memory.u64(VARIABLES + 0x40, 0)
    assert parked(process) is None


@pytest.mark.parametrize("pcs", [[SYSCALL + 0x119, CALLER], [CALLER, CALLER], [SYSCALL + 0x19]])
def test_thread_that_has_not_called_syscall(pcs: list[int]) -> None:
    process = Process()
    process.memory.u64(LOCK, 3)
    process.park(LOCK)
    process.pcs = pcs
    assert parked(process) is None


@pytest.mark.parametrize(("name", "word", "expected", "kind", "state"), [
    ("<std[e28293b1aa0f68bd]::sys::sync::mutex::futex::Mutex>::lock_contended", 2, 2, "rust-mutex", "locked"),
    ("std::sys::unix::locks::futex_mutex::Mutex::lock_contended", 0, 2, "rust-mutex", "free"),
    ("<std::sys::sync::rwlock::futex::RwLock>::read_contended", WRITTEN | WAITING_READERS,
     WRITTEN | WAITING_READERS, "rust-rwlock", "write-locked"),
    ("std::sys::sync::condvar::futex::Condvar::wait", 2, 2, "rust-condvar", "waiting for a signal"),
    ("std::sys::sync::once::futex::Once::call", 5, 5, "rust-once", "in progress"),
    ("std::thread::park", 0xFFFFFFFF, 0xFFFFFFFF, "rust-park", "parked"),
    # names that the words contradict
    ("std::sys::sync::mutex::futex::Mutex::lock_contended", 7, 2, None, None),
    ("std::sys::sync::rwlock::futex::RwLock::read_contended", 7, 7, None, None),
])
def test_standard_library_with_names(name: str, word: int, expected: int, kind: str | None, state: str | None) -> None:
    process = Process(name)
    process.memory.write(LOCK, struct.pack("<I", word))
    lock = process.lock(LOCK, 0x89, expected)
    assert ((lock.kind, lock.state) if lock else (None, None)) == (kind, state)


@pytest.mark.parametrize(("code", "before", "expected", "kind"), [
    (CONSTANT, 0, 2, "rust-mutex"),
    (CONSTANT, 0, 0xFFFFFFFF, "rust-park"),
    (VARIABLE, 0, 0xFFFFFFFF, "rust-rwlock"),
    (VARIABLE, 0, 3 | WAITING_READERS, "rust-rwlock"),
    (VARIABLE, WRITTEN | WAITING_WRITERS, 4, "rust-rwlock"),
    (VARIABLE, 0, 4, "rust-condvar"),
    (VARIABLE, 0, 2, "rust-condvar"),
    # of a condition variable, or of a `Once`
    (VARIABLE, 0, 5, None),
    # of a condition variable behind -1 or `1 << 63`, or of a writer
    (VARIABLE, 0xFFFFFFFF, 4, None), (VARIABLE, 1 << 31, 4, None),
    # from a slot that may contain a constant
    ("mov    0x8(%rsp),%ecx", 0, 2, None),
    ("nop", 0, 2, None),
])
def test_standard_library_without_names(code: str, before: int, expected: int, kind: str | None) -> None:
    process = Process(code=[code.format(value=hex(expected))])
    process.memory.write(LOCK - 4, struct.pack("<II", before, expected))
    lock = process.lock(LOCK, 0x89, expected)
    assert (lock.kind if lock else None) == kind


def test_writer_beside_a_reader() -> None:
    process = Process(code=[VARIABLE])
    process.memory.write(LOCK - 4, struct.pack("<II", 0xFFFFFFFF, 4))
    process.sleepers.add(LOCK - 4)
    lock = process.lock(LOCK, 0x89, 4)
    assert lock is not None
    assert (lock.kind, lock.address, lock.mode) == ("rust-rwlock", LOCK - 4, "exclusive")


def test_code_without_the_standard_library() -> None:
    process = Process(code=[VARIABLE])
    process.memory.map(CONSTANTS, bytes(0x1000))
    assert process.lock(LOCK, 0x89, 4) is None


def test_other_futex_operations() -> None:
    process = Process("std::thread::park")
    assert process.lock(LOCK, 0, 1) is None
    assert process.lock(LOCK, 0x189, 0xFFFFFFFF) is None
    assert process.lock(0x10, 0x80, 1) is None


def test_wait_of_a_worker_says_so() -> None:
    process = Process("rayon_core::sleep::Sleep::sleep", [VARIABLE])
    lock = process.lock(HEAP + 0x800, 0x89, 7)
    assert lock is not None
    condvar = because("condvar-has-no-owner")
    assert lock.why == because("several", reasons=(because("rayon-worker-idle"), condvar))
    process.name = "app::load"
    lock = process.lock(HEAP + 0x800, 0x89, 7)
    assert lock is not None
    assert lock.why == condvar


@pytest.mark.parametrize(("op", "timed", "term"), [(0x89, False, "rust"), (0x89, True, None), (0x80, False, None)])
def test_word_that_fits_no_kind_may_be_of_rust_by_the_form_of_the_call(op: int, timed: bool, term: str | None) -> None:
    process = Process()
    assert Rust(scene_of(process, ())).describe_unknown(FutexWait(LOCK, op, 2, timed)) == term
