"""Decodes what oneTBB records of waits: what a sleeping thread waits for, and the wait that a task ends.

A ``wait_context`` counts the tasks that a thread waits for; it is known by its address. A task has a pointer to it, or
to the first node or vertex of a chain that leads to it, and gives it up when it ends. A thread that waits for a mutex
has an object on its stack whose class shows the kind of mutex.

Sources: oneTBB 2021.5 to 2023.1 src/tbb/{concurrent_monitor.h,waiters.h,address_waiter.cpp,small_object_pool_impl.h},
include/oneapi/tbb/{task_group.h,partitioner.h,parallel_for.h,mutex.h,rw_mutex.h},
include/oneapi/tbb/detail/{_task.h,_task_handle.h,_waitable_atomic.h}.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal

from gdbext.errors import MemoryUnreadable, if_unreadable
from gdbext.inferior.cache import read_u32, read_u64
from gdbext.inferior.protocol import Memory

#: What a thread waits for in ``wait_on_address``: a ``mutex``, or to write or to read an ``rw_mutex``.
MutexWait = Literal["mutex", "write", "read"]
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
_LOWEST, _HIGHEST = 0x1_0000, 1 << 48
#: What the mangled name of the class of a ``delegated_function`` contains, by the function that waits.
_DELEGATE: Final = b"N3tbb6detail2d118delegated_functionIZNS1_"
_DELEGATES: Final[tuple[tuple[bytes, MutexWait], ...]] = (
    (_DELEGATE + b"15waitable_atomicIbE4wait", "mutex"), (_DELEGATE + b"8rw_mutex4lockE", "write"),
    (_DELEGATE + b"8rw_mutex11lock_sharedE", "read"))
_MAX_DELEGATE: Final = max(len(name) for name, _ in _DELEGATES)
# ``rw_mutex``: a writer, a waiting writer, then the number of readers
_WRITER, _READER_SHIFT = 1, 2
# Bounds of the search for such an object: bytes of the stack, words of the object that its function refers to
_MAX_STACK, _MAX_CAPTURES = 4096, 3


@if_unreadable(None)
def find_wait_of_sleeper(memory: Memory, semaphore: int) -> int | None:
    """The wait for tasks in which a thread sleeps; None if that is not known, or the thread is about to wake up.

    :param semaphore: ``binary_semaphore *`` on which a thread sleeps that waits for tasks.
    :return: ``wait_context *``.
    """
    wait = find_address_of_sleeper(memory, semaphore)
    return wait if wait is not None and _is_wait(memory, wait) else None


@if_unreadable(None)
def find_address_of_sleeper(memory: Memory, semaphore: int) -> int | None:
    """The address that a sleeping thread waits for; None if that is not known, or the thread is about to wake up.

    :param semaphore: ``binary_semaphore *`` on which a thread sleeps.
    """
    node = semaphore - _NODE_SEMAPHORE
    links = node + _NODE_LINKS
    if memory.read(node + _NODE_IN_LIST, 1) != b"\1" or memory.read(node + _NODE_INITIALISED, 1) != b"\1":
        return None
    if (read_u64(memory, read_u64(memory, links + _LINK_NEXT) + _LINK_PREVIOUS) != links
            or read_u64(memory, read_u64(memory, links + _LINK_PREVIOUS) + _LINK_NEXT) != links):
        return None
    return read_u64(memory, node + _NODE_CONTEXT)


def find_mutex_wait(memory: Memory, address: int, stack: int, end: int) -> MutexWait | None:
    """What a thread waits for in ``wait_on_address``, by the object of its caller that checks the mutex.

    :param address: that of the mutex.
    :param stack: the stack pointer of the caller's frame, which ends at `end`.
    """
    for at in range(stack, min(end, stack + _MAX_STACK), 8):
        found = _class_of_delegate(memory, at, address)
        if found is not None:
            return found
    return None


@if_unreadable(None)
def _class_of_delegate(memory: Memory, delegate: int, address: int) -> MutexWait | None:
    """What a ``delegated_function`` waits for whose function object refers to an address; None for other words."""
    table, function = read_u64(memory, delegate), read_u64(memory, delegate + 8)
    if not _is_pointer(table) or not _is_pointer(function):
        return None
    captured = [read_u64(memory, function + 8 * i) for i in range(_MAX_CAPTURES)]
    if address not in captured:
        return None
    name = _class_name(memory, table, _MAX_DELEGATE)
    return next((kind for begin, kind in _DELEGATES if name.startswith(begin)), None)


@if_unreadable(None)
def is_locked_mutex(memory: Memory, address: int) -> bool | None:
    """Whether a mutex is locked; None if its byte has another value.

    :param address: ``tbb::mutex *``.
    """
    return {b"\0": False, b"\1": True}.get(memory.read(address, 1))


@if_unreadable(None)
def decode_rw_mutex(memory: Memory, address: int) -> tuple[bool, int] | None:
    """Whether a writer has an ``rw_mutex``, and how many readers have it.

    A reader counts itself before it sees that there is a writer, so with a writer the number means nothing.

    :param address: ``tbb::rw_mutex *``.
    """
    state = read_u64(memory, address)
    readers = state >> _READER_SHIFT
    return (bool(state & _WRITER), 0 if state & _WRITER else readers) if readers <= _MAX_REFERENCES else None


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
    name = _class_name(memory, table, _MAX_NAME)
    if name.startswith(_AT_FIXED_PLACE):
        return _wait_of_vertex(memory, read_u64(memory, task + _HANDLE_WAIT))
    if name.startswith(_BEFORE_POOL):
        return _wait_before_pool(memory, task)
    return _wait_of_node_before_pool(memory, task) if name.startswith(_BY_NODE) else None


def _class_name(memory: Memory, table: int, size: int) -> bytes:
    """The beginning of the mangled name of a class, from the type information before its virtual table."""
    name = read_u64(memory, read_u64(memory, table - 8) + 8)
    # GCC puts an asterisk before a name that is not unique in the program
    return memory.read(name, size + 1).removeprefix(b"*")


def _is_pointer(word: int) -> bool:
    return _LOWEST <= word < _HIGHEST and not word % 8


@if_unreadable(False)
def _is_wait(memory: Memory, address: int) -> bool:
    return (_is_pointer(address) and read_u64(memory, address) == _VERSION
            and 0 < read_u64(memory, address + 8) <= _MAX_REFERENCES)


@if_unreadable(False)
def _is_pool(memory: Memory, address: int) -> bool:
    """Whether the members at an address may be those of a pool that has allocated small objects."""
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
