"""Decodes what oneTBB records of waits for tasks: the wait of a thread that sleeps, and the wait that a task ends.

A ``wait_context`` counts the tasks that a thread waits for; it is known by its address. A task has a pointer to it, or
to the first node or vertex of a chain that leads to it, and gives it up when it ends.

Sources: oneTBB 2021.5 to 2023.1 src/tbb/{concurrent_monitor.h,waiters.h,small_object_pool_impl.h},
include/oneapi/tbb/{task_group.h,partitioner.h,parallel_for.h}, include/oneapi/tbb/detail/{_task.h,_task_handle.h}.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gdbext.errors import MemoryUnreadable, if_unreadable
from gdbext.inferior.cache import read_u32, read_u64
from gdbext.inferior.protocol import Memory

# ``sleep_node``: virtual table, next and previous ``base_node``, context, flags, semaphore
_NODE_LINKS, _NODE_CONTEXT, _NODE_IN_LIST, _NODE_INITIALISED, _NODE_SEMAPHORE = 8, 24, 40, 41, 48
_LINK_NEXT, _LINK_PREVIOUS = 0, 8
# ``wait_context``: version, count of references
_VERSION, _MAX_REFERENCES = 1, (1 << 32) - 1
# ``task``: its size, and the index of ``execute`` in its virtual table
_TASK_SIZE, _EXECUTE = 64, 2
# ``task_handle_task`` and ``function_stack_task``: a word, then the ``wait_context`` or its vertex
_HANDLE_WAIT: Final = _TASK_SIZE + 8
#: How the wait of a task is found, by the beginning of the mangled name of its class: those of ``task_group``, in the
#: namespaces that they have in some version, and that of ``parallel_for``.
_AT_FIXED_PLACE: Final = (b"N3tbb6detail2d213function_taskI", b"N3tbb6detail2d119function_stack_taskI",
                          b"N3tbb6detail2d219function_stack_taskI")
_BEFORE_POOL: Final = b"N3tbb6detail2d113function_taskI"
_BY_NODE: Final = b"N3tbb6detail2d19start_forI"
_MAX_NAME: Final = max(map(len, (*_AT_FIXED_PLACE, _BEFORE_POOL, _BY_NODE)))
# Bounds: bytes of a task that are searched, nodes and vertices of a chain, objects that a pool has allocated
_MAX_TASK, _MAX_NODES, _MAX_OBJECTS = 1024, 256, 1 << 32
# ``small_object_pool_impl``: two lists with a counter each; it and what it allocates are aligned
_POOL_ALIGNMENT, _POOL_PUBLIC, _OBJECT_ALIGNMENT = 128, 128, 64
_LOWEST, _HIGHEST = 0x1_0000, 1 << 47


@if_unreadable(None)
def find_wait_of_sleeper(memory: Memory, semaphore: int) -> int | None:
    """The wait for tasks in which a thread sleeps; None if that is not known, or the thread is about to wake up.

    :param semaphore: ``binary_semaphore *`` on which a thread sleeps that waits for tasks.
    :return: ``wait_context *``.
    """
    node = semaphore - _NODE_SEMAPHORE
    links = node + _NODE_LINKS
    if memory.read(node + _NODE_IN_LIST, 1) != b"\1" or memory.read(node + _NODE_INITIALISED, 1) != b"\1":
        return None
    if (read_u64(memory, read_u64(memory, links + _LINK_NEXT) + _LINK_PREVIOUS) != links
            or read_u64(memory, read_u64(memory, links + _LINK_PREVIOUS) + _LINK_NEXT) != links):
        return None
    wait = read_u64(memory, node + _NODE_CONTEXT)
    return wait if _is_wait(memory, wait) else None


@if_unreadable(None)
def find_wait_of_task(memory: Memory, task: int, execute: int) -> int | None:
    """The wait that lasts at least until a running task ends; None for other tasks than those of the known classes.

    Only classes count of which the code gives up its wait after all calls of code of the program.

    :param task: ``task *``, whose function `execute` runs.
    :param execute: the address of that function.
    :return: ``wait_context *``.
    """
    table = read_u64(memory, task)
    if task % _TASK_SIZE or read_u64(memory, table + 8 * _EXECUTE) != execute:
        return None
    name = _class_name(memory, table)
    if name.startswith(_AT_FIXED_PLACE):
        return _wait_of_vertex(memory, read_u64(memory, task + _HANDLE_WAIT))
    if name.startswith(_BEFORE_POOL):
        return _wait_before_pool(memory, task)
    return _wait_of_node_before_pool(memory, task) if name.startswith(_BY_NODE) else None


def _class_name(memory: Memory, table: int) -> bytes:
    """The beginning of the mangled name of a class, from the type information before its virtual table."""
    name = read_u64(memory, read_u64(memory, table - 8) + 8)
    # GCC puts an asterisk before a name that is not unique in the program
    return memory.read(name, _MAX_NAME + 1).removeprefix(b"*")


def _is_pointer(word: int) -> bool:
    return _LOWEST <= word < _HIGHEST and not word % 8


@if_unreadable(False)
def _is_wait(memory: Memory, address: int) -> bool:
    return (_is_pointer(address) and read_u64(memory, address) == _VERSION
            and 0 < read_u64(memory, address + 8) <= _MAX_REFERENCES)


@if_unreadable(False)
def _is_pool(memory: Memory, address: int) -> bool:
    """Whether an address is that of a pool that has allocated small objects, as far as its members show."""
    if not _is_pointer(address) or address % _POOL_ALIGNMENT:
        return False
    own, count, public, removed = (read_u64(memory, at) for at in (
        address, address + 8, address + _POOL_PUBLIC, address + _POOL_PUBLIC + 8))
    return not own % _OBJECT_ALIGNMENT and not public % _OBJECT_ALIGNMENT and 0 < count < _MAX_OBJECTS and not removed


def _wait_of_vertex(memory: Memory, vertex: int) -> int | None:
    """The wait of a ``wait_tree_vertex_interface``, or of a pointer to a wait, as tasks had before 2022.0."""
    for _ in range(_MAX_NODES):
        if not _is_pointer(vertex):
            return None
        if _is_wait(memory, vertex):
            return vertex
        if _is_wait(memory, vertex + 8):
            return vertex + 8  # ``wait_context_vertex``
        # ``reference_vertex``: virtual table, parent, count
        if not 0 < read_u64(memory, vertex + 16) <= _MAX_REFERENCES:
            return None
        vertex = read_u64(memory, vertex + 8)
    return None


def _words(memory: Memory, task: int) -> Iterator[int]:
    """The words of a task behind its header."""
    try:
        for at in range(task + _TASK_SIZE, task + _MAX_TASK, 8):
            yield read_u64(memory, at)
    except MemoryUnreadable:
        return


def _wait_before_pool(memory: Memory, task: int) -> int | None:
    """The wait of a task whose last members are a pointer to it and one to the pool; a function object precedes them.

    Programs have no pointers to pools, so the first pair is that of the task.
    """
    before = 0
    for word in _words(memory, task):
        if _is_wait(memory, before) and _is_pool(memory, word):
            return before
        before = word
    return None


def _wait_of_node_before_pool(memory: Memory, task: int) -> int | None:
    """The wait of a task that has a pointer to a node, then the state of its partitioner and a pointer to the pool.

    A range and a function object precede them. Programs have no pointers to nodes, but a word that was never written
    may contain an old one. So all pointers to nodes before the pool have to lead to the same wait.
    """
    found: set[int] = set()
    for word in _words(memory, task):
        wait = _wait_of_node(memory, word)
        if wait is not None:
            found.add(wait)
        elif found and _is_pool(memory, word):
            return found.pop() if len(found) == 1 else None
    return None


@if_unreadable(None)
def _wait_of_node(memory: Memory, node: int) -> int | None:
    """The wait at the end of a chain of ``node``: parent, count, and in the last one, without parent, the wait."""
    for _ in range(_MAX_NODES):
        if not _is_pointer(node) or not 0 < read_u32(memory, node + 8) < 1 << 31:
            return None
        parent = read_u64(memory, node)
        if not parent:
            return node + 16 if _is_wait(memory, node + 16) else None
        node = parent
    return None
