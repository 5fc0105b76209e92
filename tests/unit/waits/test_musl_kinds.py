"""Rows for musl's futex words; tests/gdb/test_musl.py has all kinds of real programs."""

from __future__ import annotations

import struct
from typing import Any, cast

from gdbext import arch
from gdbext.glibc.futex import PRIVATE, FutexWait
from gdbext.locks.seen import NotRecorded, SeenLock
from gdbext.threads.site import NOWHERE, Site
from gdbext.threads.threads import Threads
from gdbext.waits.lock_kinds import recognise
from gdbext.waits.musl_kinds import KINDS, Context
from tests.support.fake_memory import FakeMemory

AT, WAITERS = 0x5000, 0x80000000


class Target:
    def __init__(self, memory: FakeMemory) -> None:
        self.memory = memory


def lock_at(word: int, expected: int, *functions: str, **memory: bytes) -> SeenLock:
    ram = FakeMemory({AT: memory["at"]})
    context = Context(cast("Any", Target(ram)), arch.of("x86_64"), Threads([], 1))
    site = Site(functions, 0) if functions else NOWHERE
    return recognise(context, FutexWait(word, PRIVATE, expected, False), site, KINDS)


def ints(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}I", *values)


def test_normal_mutex_has_no_owner() -> None:
    lock = lock_at(AT + 4, 16 | WAITERS, at=ints(0, 16 | WAITERS, 1, 0))
    assert (lock.kind, lock.address, lock.state, lock.held) == ("mutex", AT, "locked", NotRecorded(None))


def test_number_of_readers_is_not_mistaken_for_the_owner_of_a_mutex() -> None:
    memory = ints(1, 8903 | WAITERS, 1, 0, 0)
    assert lock_at(AT + 4, 8903 | WAITERS, at=memory).kind == "futex"
    assert lock_at(AT + 4, 8903 | WAITERS, "pthread_mutex_lock", at=memory).kind == "mutex"
    assert lock_at(AT + 4, 8903 | WAITERS, "pthread_rwlock_wrlock", at=memory).kind == "rwlock"


def test_semaphore_and_writer_differ_by_the_word_for_other_processes() -> None:
    assert lock_at(AT, 0xFFFFFFFF, at=ints(0xFFFFFFFF, 1, 128, 0)).kind == "semaphore"
    assert lock_at(AT, 0xFFFFFFFF, at=ints(0xFFFFFFFF, 1, 0, 0)).kind == "rwlock"
