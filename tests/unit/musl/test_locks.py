"""musl's locks, as musl 1.2.3 leaves them when threads wait for them."""

from __future__ import annotations

import struct

import pytest

from gdbext.musl.locks import (
    WAITERS,
    barrier_instance,
    find_barrier,
    find_condvar,
    find_mutex,
    find_rwlock,
    is_semaphore,
    words_of_instance,
)
from tests.support.fake_memory import FakeMemory

AT, STACK = 0x40_A260, 0x7F00_0000_1000


def ints(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}I", *values)


def mutex(kind: int, lock: int, waiters: int = 1) -> FakeMemory:
    return FakeMemory({AT: ints(kind, lock, waiters, 0, 0, 0)})


@pytest.mark.parametrize(("kind", "lock", "name", "owner"), [
    (0, 16 | WAITERS, "normal", None), (1, 24270 | WAITERS, "recursive", 24270),
    (2, 7 | WAITERS, "error-checking", 7), (128, 16 | WAITERS, "normal, process-shared", None),
    (5, 7 | WAITERS, "recursive, robust", 7), (9, 7 | WAITERS, "recursive, priority-inheriting", 7)])
def test_mutex(kind: int, lock: int, name: str, owner: int | None) -> None:
    found = find_mutex(mutex(kind, lock), AT + 4, lock)
    assert found is not None
    assert (found.address, found.kind, found.owner, found.owner_died) == (AT, name, owner, False)


def test_mutex_whose_owner_died() -> None:
    found = find_mutex(mutex(5, 7 | 0x40000000 | WAITERS), AT + 4, 7 | WAITERS)
    assert found is not None
    assert (found.owner_died, found.owner) == (True, 7)


@pytest.mark.parametrize(("kind", "lock", "waiters", "expected"), [
    (0, 0, 1, 16 | WAITERS), (0, 17 | WAITERS, 1, 17 | WAITERS), (0, 16, 0, 16 | WAITERS), (1, 16 | WAITERS, 1, 16),
    (3, 7 | WAITERS, 1, 7 | WAITERS), (0x20, 7 | WAITERS, 1, 7 | WAITERS), (1, 16 | WAITERS, 1, 16 | WAITERS)])
def test_what_is_no_mutex_that_a_thread_waits_for(kind: int, lock: int, waiters: int, expected: int) -> None:
    assert find_mutex(mutex(kind, lock, waiters), AT + 4, expected) is None


@pytest.mark.parametrize(("lock", "readers"), [(0xFFFFFFFF, 0), (3 | WAITERS, 3)])
def test_rwlock(lock: int, readers: int) -> None:
    found = find_rwlock(FakeMemory({AT: ints(lock, 1, 0)}), AT, lock)
    assert found is not None
    assert (found.address, found.readers, found.process_shared) == (AT, readers, False)


@pytest.mark.parametrize(("lock", "waiters", "shared"), [(0, 1, 0), (3 | WAITERS, 0, 0), (3 | WAITERS, 1, 5),
                                                         (0x7FFFFFF0 | WAITERS, 1, 0)])
def test_what_is_no_rwlock(lock: int, waiters: int, shared: int) -> None:
    assert find_rwlock(FakeMemory({AT: ints(lock, waiters, shared)}), AT, lock | WAITERS) is None


@pytest.mark.parametrize(("value", "waiters", "private", "expected", "shared"), [
    (0xFFFFFFFF, 1, 128, 0xFFFFFFFF, False), (0, 2, 0, 0xFFFFFFFF, True), (WAITERS, 1, 128, WAITERS, False),
    (1, 1, 128, 0xFFFFFFFF, None), (0, 0, 128, 0xFFFFFFFF, None), (0, 1, 3, 0xFFFFFFFF, None),
    (0, 1, 128, 0, None)])
def test_semaphore(value: int, waiters: int, private: int, expected: int, shared: bool | None) -> None:
    assert is_semaphore(FakeMemory({AT: ints(value, waiters, private)}), AT, expected) is shared


def waiter(previous: int, following: int, state: int = 0, barrier: int = 2) -> bytes:
    return struct.pack("<QQIIQ", previous, following, state, barrier, 0)


def condvar(head: int, tail: int) -> bytes:
    return struct.pack("<QQQQQQ", 0, head, 0, 0, 0, tail)


def test_condvar_is_found_by_the_list_of_its_waiters() -> None:
    first, second = STACK, STACK + 0x1000
    memory = FakeMemory({first: waiter(0, second), second: waiter(first, 0), AT: condvar(first, second)})
    words = [0, AT + 8, first, AT]
    assert find_condvar(memory, first + 20, 2, words) == AT
    assert find_condvar(memory, second + 20, 2, words) == AT
    assert find_condvar(memory, second + 20, 2, [0, first]) is None
    assert find_condvar(memory, second + 20, 1, words) is None


def test_condvar_with_a_damaged_list_is_not_found() -> None:
    memory = FakeMemory({STACK: waiter(STACK, 0), AT: condvar(STACK, STACK)})
    assert find_condvar(memory, STACK + 20, 2, [AT]) is None


def test_barrier_is_found_by_the_instance_of_its_first_thread() -> None:
    memory = FakeMemory({STACK: ints(2, 0, 1, 1), AT: struct.pack("<IIIIQQ", 0, 0, 3, 0, 0, STACK)})
    instance = barrier_instance(STACK + 12, 1)
    assert instance == barrier_instance(STACK + 4, 0) == STACK
    assert words_of_instance(STACK) == (STACK + 12, STACK + 4)
    found = find_barrier(memory, STACK, [0, 8, AT])
    assert found is not None
    assert (found.address, found.count, found.arrived, found.process_shared) == (AT, 4, 3, False)
    assert find_barrier(memory, STACK, [0, 8]) is None
    assert barrier_instance(STACK, 7) is None
