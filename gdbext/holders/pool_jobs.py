"""Which threads can finish the job of a thread pool: those that have code of the pool's file on their stacks.

The code of a pool is compiled into the file that uses it, or is a file of its own. A
thread that runs a job was called by that code. So these threads may be more than those that can finish the job, but
none is missing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from gdbext.libraries import LIBRARIES
from gdbext.locks.seen import SeenLock
from gdbext.model.reasons import parts
from gdbext.record import record
from gdbext.threads.code import Code
from gdbext.threads.site import Sites
from gdbext.threads.threads import Threads


@record
class PoolThreads:
    """The numbers of the threads that may finish a job, and the name of the file with the pool's code."""

    threads: tuple[int, ...]
    file: str


def threads_of_pool(threads: Threads, code: Code, sites: Sites, waiters: Collection[int],
                    waited: Mapping[int, SeenLock]) -> PoolThreads | None:
    """Find the threads that may finish a job; None if one of them may be missing.

    :param waiters: the threads that wait for the job.
    :param waited: the locks that threads wait for, by the thread's number.
    """
    files = set()
    for number in waiters:
        native = threads[number].native(code)
        caller = sites.site(native).caller
        files.add(code.module(native[caller][0]) if caller is not None else None)
    file = files.pop() if len(files) == 1 else None
    if file is None or not threads.all_available:
        return None
    found = []
    idle = frozenset(code for library in LIBRARIES for code in library.idle)
    for seen in threads:
        native = seen.native(code)
        is_inside = any(code.module(pc) is file for pc, _ in native)
        if seen.number in waiters or not is_inside and _is_whole(native, sites, seen.number == threads.first):
            continue
        lock = waited.get(seen.number)
        if lock is None or idle.isdisjoint(why.code for why in parts(lock.why)):
            found.append(seen.number)
    return PoolThreads(tuple(found), file.name)


def _is_whole(native: Sequence[tuple[int, int]], sites: Sites, is_first: bool) -> bool:
    """Whether a stack reaches the C library's function that has started the thread, from code of another file.

    A thread that has only begun is not in code of the pool yet. The stack of the first thread ends in the program.
    """
    ends = len(native) - 1 if is_first else len(native)
    return (bool(native[:ends]) and sites.in_runtime(native[ends - 1][0])
            and any(not sites.in_runtime(pc) for pc, _ in native))
