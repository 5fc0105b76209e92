"""The table of lock kinds: a row for each kind that a report can have, with what holds for every lock of that kind.

The rows of the kinds of libraries are in the folders of `gdbext.libraries`. How a kind is recognised and decoded is not
here: see ``waits/``.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Final

from gdbext.library import Kind

#: A key of `KINDS`, or of the kinds of a library. A newer report may have kinds that are in neither.
LockKind = str

#: Kinds that are named outside of this table.
CONDVAR: Final = "condvar"
DESCRIPTOR: Final = "descriptor"
FAST_RLOCK: Final = "py-fast-rlock"
FILE_LOCK: Final = "file-lock"
FUTEX: Final = "futex"
GIL: Final = "gil"
POOL_JOB: Final = "pool-job"
RWLOCK: Final = "rwlock"
SEMAPHORE: Final = "semaphore"
THREAD_EXIT: Final = "thread-exit"


#: The kinds of the C library, of Python and of the kernel.
KINDS: Final[Mapping[LockKind, Kind]] = {
    "gil": Kind(
        "recorded: the GIL names the thread state that holds it",
        title="the GIL", records_owner=True, passed_on=True, waiters="wake",
        waited_in="the GIL's own wait"),
    "mutex": Kind(
        "recorded, except where a mutex keeps no owner (elided locks)", name="pthread mutex",
        records_owner=True, owner_offset=8),
    "rwlock": Kind(
        "the writer is recorded; readers are only counted: derived where the machine code of a thread proves that it "
        "reads, candidates where a thread only has the lock's address on its stack", name="pthread rwlock",
        records_owner=True, behaviour="rwlock", owner_offset=24),
    "thread-exit": Kind(
        "recorded: the thread whose descriptor is waited on",
        title="the end of a thread", held="", records_owner=True, behaviour="thread-end"),
    "dynamic-linker": Kind(
        "recorded: recursive mutexes of the dynamic linker", name="lock of the dynamic linker",
        records_owner=True),
    "stdio": Kind(
        "recorded: the lock of a `FILE` names the thread's descriptor", name="lock of a FILE",
        records_owner=True),
    "barrier": Kind(
        "missing threads are counted: inferred if there are exactly as many other threads, candidates "
        "otherwise", name="barrier",
        no_owner="arrivals-not-recorded", behaviour="barrier"),
    "static-guard": Kind(
        "derived where the machine code of a thread proves it; inferred: the only thread between acquisition and "
        "release of the guard", name="C++ static guard",
        held="run by"),
    "once": Kind(
        "derived: the thread in which `pthread_once` has called the initialiser, if its frame contains the address; "
        "inferred: the only thread that may be in the initialiser", name="pthread_once",
        held="run by"),
    "malloc-arena": Kind(
        "inferred: the only thread in the allocator with this arena, candidates otherwise", name="malloc arena",
        released_by="others"),
    "condvar": Kind(
        "none: any thread may signal it; the mutex that belongs to it is a lock of its own", name="condition variable",
        no_owner="condvar-has-no-owner", may_end_program=True, behaviour="event"),
    "semaphore": Kind(
        "none: any thread may post it; candidates: threads whose machine code has acquired it and can release it",
        name="POSIX semaphore", no_owner="semaphore-has-no-owner", may_end_program=True, behaviour="event",
        released_by="signal-handlers"),
    "pool-job": Kind(
        "inferred: the threads that may finish it, if each of them waits for something, or if it is only one thread",
        name="job of a thread pool", held="to be finished by", holds="may have to finish", behaviour="event",
        waited_in="jobs of thread pools"),
    "spin-lock": Kind(
        "derived where the machine code of a thread proves it, candidates otherwise", name="spin lock",
        released_by="others", waiters="spin",
        waited_in="`pthread_spin_lock`, awake"),
    "py-lock": Kind(
        "derived: the thread inside a `with` block of it, also in a suspended frame; derived or inferred: the thread "
        "that has called `acquire` and will release it; candidates otherwise", name="threading.Lock",
        released_by="python-handlers", waited_in="`threading.Lock`, `multiprocessing.Lock`"),
    "py-rlock": Kind(
        "recorded", name="threading.RLock",
        records_owner=True,
        waited_in="`threading.RLock`, `multiprocessing.RLock`, handlers of `logging`"),
    "py-fast-rlock": Kind(
        "recorded: the ident of the thread; inferred where that thread is in compiled code", name="FastRLock",
        records_owner=True,
        waited_in="`FastRLock` of Cython code: `fastrlock`, `h5py`, `lupa`, CuPy"),
    "py-import": Kind(
        "recorded: the lock of a module while it is imported", name="import lock",
        records_owner=True, waited_in="`import`"),
    "py-buffered-io": Kind(
        "recorded: the lock of a buffered file", name="lock of a buffered file",
        records_owner=True, waited_in="files"),
    "py-mutex": Kind(
        "a `PyMutex` of CPython or an extension: derived where the machine code of a thread proves it, or where it was "
        "passed on already; candidates otherwise",
        name="PyMutex", waited_in="`PyMutex_Lock`"),
    "py-critical-section": Kind(
        "derived: the attached thread whose active critical section names the object's lock", name="critical section",
        passed_on=True, waited_in="`Py_BEGIN_CRITICAL_SECTION`, free-threaded"),
    "stop-the-world": Kind(
        "recorded: the thread that requested it; derived: the attached threads that have not paused",
        held="requested by", records_owner=True, passed_on=True, behaviour="pause",
        waited_in="`gc.collect()` and others, free-threaded"),
    "py-condition": Kind(
        "none: any thread may wake a waiting thread; also queues. A result: derived: the thread that runs the call; "
        "inferred: the workers of the pool that has the call in its queue", name="threading.Condition",
        no_owner="condition-has-no-owner", behaviour="event", released_by="python-handlers",
        waited_in="`threading.Condition`, `multiprocessing.Condition`, `queue`, `concurrent.futures`"),
    "py-event": Kind(
        "none: any thread may set it. A result: derived: the threads of the pool that send the call or take its "
        "result, if they wait for a lock", name="threading.Event", no_owner="event-has-no-owner", may_end_program=True,
        behaviour="event", released_by="python-handlers", waited_in="`threading.Event`, `multiprocessing.Event`"),
    "py-semaphore": Kind(
        "none: any thread may release it", name="threading.Semaphore", no_owner="py-semaphore-has-no-owner",
        behaviour="event", released_by="python-handlers",
        waited_in="`threading.Semaphore`, `multiprocessing.Semaphore`"),
    "file-lock": Kind(
        "derived: for a live process /proc shows the descriptors through which a file is locked; a thread that waits "
        "for its own process is the holder if it is the only thread; candidates: threads that use the descriptor",
        name="file lock", behaviour="file-lock", waited_in="`flock`, `fcntl`"),
    "descriptor": Kind(
        "none: for a live process /proc shows the other end of a pipe or socket", behaviour="outside",
        waited_in="`read`, `write`, `poll`, `accept` and other system calls"),
    "futex": Kind(
        "not known: a futex word that fits no other kind; candidates only", name="futex word",
        released_by="signal-handlers", waited_in="whatever is left"),
}
_UNKNOWN = Kind(released_by="others")
#: What a condition is called that is part of something else, by the lock's state.
_PARTS_OF = {"queue is empty": "queue.Queue", "queue is full": "queue.Queue", "not all tasks are done": "queue.Queue",
             "result is pending": "result"}
#: What an object of `multiprocessing` is called whose name does not differ by the module alone.
_SHARED = {"queue.Queue": "multiprocessing.JoinableQueue"}


@functools.cache
def all_kinds() -> Mapping[LockKind, Kind]:
    """The rows of all kinds, with those of the libraries, which are loaded for this."""
    from gdbext.libraries import LIBRARIES

    return {**KINDS, **{kind: row for library in LIBRARIES for kind, row in library.kinds.items()}}


def kind_of(kind: LockKind) -> Kind:
    """The row of a kind; that of a plain lock for a kind that is not in the table, as of a newer report."""
    return KINDS.get(kind) or all_kinds().get(kind, _UNKNOWN)


def name_of_kind(kind: str, state: str | None = None, shared: bool = False) -> str:
    """What people call a lock of a kind.

    :param state: its state, which says more for queues and results.
    :param shared: whether several processes share it: such a lock of Python is one of `multiprocessing`.
    """
    name = _PARTS_OF.get(state or "") or kind_of(kind).name or kind
    return _SHARED.get(name, name.replace("threading.", "multiprocessing.")) if shared else name


def id_of_lock(kind: LockKind, address: int) -> str:
    """The id of a lock in reports."""
    return f"{kind}:{address:#x}"
