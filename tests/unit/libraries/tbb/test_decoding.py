from __future__ import annotations

import struct

import pytest

from gdbext.libraries.tbb.decoding import (
    decode_rw_mutex,
    find_mutex_wait,
    find_wait_of_sleeper,
    find_wait_of_task,
    is_locked_mutex,
)
from tests.support.fake_memory import FakeMemory

NODE, LIST, WAIT, OTHER_WAIT = 0x7F00_0000_1000, 0x5555_0000_2000, 0x7F00_0000_3000, 0x7F00_0000_3100
TASK, TABLE, TYPE, NAME, EXECUTE = 0x5555_0000_4000, 0x40_1010, 0x40_2000, 0x40_3000, 0x40_4000
POOL, NODES, VERTEX = 0x5555_0000_8000, 0x5555_0000_9000, 0x5555_0000_A000
HANDLE = b"N3tbb6detail2d213function_taskIZ4mainEUlvE_EE"
FUNCTION = b"N3tbb6detail2d113function_taskIZ4mainEUlvE_EE"
ON_STACK = b"N3tbb6detail2d119function_stack_taskIZ4mainEUlvE_EE"
LOOP = b"*N3tbb6detail2d19start_forINS1_13blocked_rangeIiEEZ4mainEUliE_KNS1_18simple_partitionerEEE"


def words(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}Q", *values)


def sleeper(next_link: int = LIST, in_list: int = 1, wait: int = WAIT) -> FakeMemory:
    """A thread that sleeps alone in a monitor; its semaphore is 48 bytes behind the node's start."""
    links = NODE + 8
    return FakeMemory({
        NODE: words(0, next_link, LIST, wait, 0x5555) + bytes([in_list, 1, 0, 0]) + bytes(4) + struct.pack("<I", 2),
        LIST: words(links, links), WAIT: words(1, 3), OTHER_WAIT: words(1, 1)})


def test_wait_of_a_thread_that_sleeps() -> None:
    assert find_wait_of_sleeper(sleeper(), NODE + 48) == WAIT


@pytest.mark.parametrize("memory", [
    sleeper(in_list=0),  # about to wake up
    sleeper(next_link=WAIT),  # not a node of a list
    sleeper(wait=LIST),
    sleeper(wait=1),  # as of a thread that waits for a mutex of a condition
    sleeper(next_link=0x10),
])
def test_other_sleeper(memory: FakeMemory) -> None:
    assert find_wait_of_sleeper(memory, NODE + 48) is None


def task(name: bytes, *members: int) -> FakeMemory:
    """A task of a class with these members, which follow its header; its memory has 512 bytes."""
    return FakeMemory({
        TASK: (words(TABLE, 0, 0, 0, 0, 0, 0, 0, *members) + bytes(512))[:512],
        TABLE - 16: words(0, TYPE, 0x10, 0x20, EXECUTE, 0x30), TYPE: words(0, NAME), NAME: name + bytes(64),
        WAIT: words(1, 3), OTHER_WAIT: words(1, 1),
        POOL: words(0, 4) + bytes(112) + words(0, 0), POOL + 0x200: words(0, 0) + bytes(112) + words(0, 0),
        # a tree: two inner nodes, and the root with the wait; and the root of another one
        NODES: words(NODES + 32, 2, POOL, 0, NODES + 64, 1, POOL, 0, 0, 1, 1, 1),
        NODES + 96: words(0, 1, 1, 1),
        # the vertex of a thread, and that of a group
        VERTEX: words(TABLE, VERTEX + 32, 2, 0, TABLE, 1, 5)})


@pytest.mark.parametrize(("memory", "wait"), [
    (task(HANDLE, 0, WAIT, OTHER_WAIT, POOL), WAIT),
    (task(HANDLE, 0, VERTEX + 32, 0, POOL), VERTEX + 40),
    (task(HANDLE, 0, VERTEX, 0, POOL), VERTEX + 40),
    (task(ON_STACK, 0x7F00, WAIT), WAIT),
    (task(FUNCTION, WAIT, POOL), WAIT),
    (task(FUNCTION, OTHER_WAIT, WAIT, POOL), WAIT),  # the function object refers to another group
    (task(FUNCTION, OTHER_WAIT, POOL + 0x200, WAIT, POOL), WAIT),  # and then to something other than a pool
    (task(FUNCTION, WAIT, POOL, OTHER_WAIT, POOL), WAIT),  # rests of an earlier task
    (task(LOOP, 1, 2, NODES, 0, POOL), NODES + 80),
    (task(LOOP, 1, 2, NODES + 64, 0, 0, POOL), NODES + 80),
    (task(LOOP, 1, 2, NODES, 0, POOL, NODES + 96, POOL), NODES + 80),
    (task(LOOP, 1, NODES + 96, NODES, 0, POOL), None),  # a word that was never written has an old node
    (task(LOOP, 1, 2, NODES, 0, 0), None),
    (task(LOOP, 1, 2, WAIT, 0, POOL), None),
    (task(b"N3tbb6detail2d112start_reduceI", 1, NODES, 0, POOL), None),  # it may call `join` after its end
    (task(b"11function_taskI", WAIT, POOL), None),
])
def test_wait_of_a_task(memory: FakeMemory, wait: int | None) -> None:
    assert find_wait_of_task(memory, TASK, EXECUTE) == wait


def test_task_whose_class_has_another_function() -> None:
    assert find_wait_of_task(task(FUNCTION, WAIT, POOL), TASK, EXECUTE + 0x40) is None
    assert find_wait_of_task(task(FUNCTION, WAIT, POOL), TASK + 8, EXECUTE) is None


def test_task_that_is_unreadable() -> None:
    assert find_wait_of_task(FakeMemory(), TASK, EXECUTE) is None


def test_wait_without_tasks() -> None:
    memory = task(FUNCTION, WAIT, POOL)
    memory.write(WAIT, words(1, 0))
    assert find_wait_of_task(memory, TASK, EXECUTE) is None


def test_nodes_that_refer_to_each_other() -> None:
    memory = task(LOOP, 1, 2, NODES, 0, POOL)
    memory.write(NODES + 64, words(NODES, 1))
    assert find_wait_of_task(memory, TASK, EXECUTE) is None


STACK, LAMBDA, MUTEX = 0x7F00_0000_6000, 0x7F00_0000_6100, 0x5555_0000_B000
DELEGATE = b"N3tbb6detail2d118delegated_functionIZNS1_"


@pytest.mark.parametrize(("name", "found"), [
    (DELEGATE + b"15waitable_atomicIbE4waitEbmSt12memory_orderEUlvE_EE", "mutex"),
    (DELEGATE + b"8rw_mutex4lockEvEUlvE_EE", "write"),
    (DELEGATE + b"8rw_mutex11lock_sharedEvEUlvE_EE", "read"),
    (DELEGATE + b"8rw_mutex7upgradeEvEUlvE_EE", None),
    (b"N3app8functionE", None)])
def test_kind_of_a_mutex(name: bytes, found: str | None) -> None:
    memory = FakeMemory({STACK: words(1, TABLE, 0, TABLE, LAMBDA, 0, 0, 0), LAMBDA: words(MUTEX, STACK, STACK),
                         TABLE - 16: words(0, TYPE, 0x10), TYPE: words(0, NAME), NAME: name + bytes(64)})
    assert find_mutex_wait(memory, MUTEX, STACK, STACK + 64) == found
    assert find_mutex_wait(memory, MUTEX + 1, STACK, STACK + 64) is None
    assert find_mutex_wait(memory, MUTEX, STACK, STACK + 16) is None


@pytest.mark.parametrize(("byte", "locked"), [(0, False), (1, True), (2, None)])
def test_mutex(byte: int, locked: bool | None) -> None:
    assert is_locked_mutex(FakeMemory({MUTEX: bytes([byte])}), MUTEX) is locked


@pytest.mark.parametrize(("state", "decoded"), [
    (0, (False, 0)), (2, (False, 0)), (1, (True, 0)), (3, (True, 0)), (8, (False, 2)), (10, (False, 2)), (5, (True, 0)),
    (1 << 63, None)])
def test_rw_mutex(state: int, decoded: tuple[bool, int] | None) -> None:
    assert decode_rw_mutex(FakeMemory({MUTEX: words(state)}), MUTEX) == decoded
