"""The table of lock kinds: a row for each kind that a report can have, with what holds for every lock of that kind.

How a kind is recognised and decoded is not here: see ``waits/``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from gdbext.model.reasons import ReasonCode
from gdbext.record import record

LockKind = Literal[
    "gil", "mutex", "rwlock", "condvar", "semaphore", "barrier", "once", "spin-lock", "thread-exit", "static-guard",
    "dynamic-linker", "stdio", "malloc-arena", "allocator-lock", "openmp-barrier", "openmp-lock", "absl-mutex",
    "absl-condvar", "boost-shared-mutex", "parking-lot-mutex", "parking-lot-rwlock", "parking-lot-condvar",
    "parking-lot-once", "qt-mutex", "qt-recursive-mutex", "qt-rwlock", "qt-semaphore", "qt-call", "rust-mutex",
    "rust-rwlock", "rust-condvar", "rust-once", "rust-park", "tbb-mutex", "tbb-rwlock", "tbb-tasks", "tbb-wait",
    "pool-job", "java-monitor", "java-condition", "java-lock", "java-rwlock", "java-park", "py-lock", "py-rlock",
    "py-fast-rlock", "py-mutex", "py-critical-section", "py-event", "py-condition", "py-semaphore", "py-import",
    "py-buffered-io", "stop-the-world", "futex", "file-lock", "descriptor"]

#: Kinds that are named outside of this table.
ABSL_MUTEX: Final = "absl-mutex"
CONDVAR: Final = "condvar"
DESCRIPTOR: Final = "descriptor"
FAST_RLOCK: Final = "py-fast-rlock"
FILE_LOCK: Final = "file-lock"
FUTEX: Final = "futex"
GIL: Final = "gil"
POOL_JOB: Final = "pool-job"
QT_MUTEX: Final = "qt-mutex"
QT_RWLOCK: Final = "qt-rwlock"
RWLOCK: Final = "rwlock"
SEMAPHORE: Final = "semaphore"
TBB_TASKS: Final = "tbb-tasks"
THREAD_EXIT: Final = "thread-exit"


@record
class Kind:
    """A row. The defaults are those of a plain lock that does not record its owner."""

    #: how its holders are found, as docs/support.md shows it
    found: str = "not known"
    #: what people call it, before its address and name; None: the kind
    name: str | None = None
    #: what a reader sees instead of the kind and the address
    title: str | None = None
    #: the words before the holders, if not "held by"; empty where the title contains it
    held: str | None = None
    #: the verb between a holder and the lock
    holds: str = "holds"
    #: whether a waiter needs ``all`` holders to release it or ``any`` one of them
    wait_for: Literal["all", "any"] = "all"
    #: whether the lock itself names its owner
    records_owner: bool = False
    #: why nobody is known to hold it, for kinds that have no owner
    no_owner: ReasonCode | None = None
    #: whether it may be held by several readers
    has_readers: bool = False
    #: whether its holders are the threads that have not arrived yet
    gathers: bool = False
    #: whether a waiter waits until any other thread wakes it, unless a thread holds it
    is_event: bool = False
    #: whether programs also use it to wait for a signal: a Python signal handler runs in the first thread
    may_await_signal: bool = False
    #: whether a signal handler of C may release it
    handler_may_release: bool = False
    #: whether only threads of the process release it, unless it is shared with other processes
    own_threads_only: bool = False
    #: whether nobody holds it for the moment in which it goes from one thread to the next
    passed_on: bool = False
    #: whether its waiters wake up regularly to ask for it
    waiters_wake: bool = False
    #: whether its waiters run while they wait
    spins: bool = False
    #: whether it is not a lock but something outside of the process
    outside: bool = False
    #: whether it is outside of the process unless only this process holds it
    may_be_outside: bool = False
    #: whether its name is shown in place of its address
    by_name: bool = False
    #: whether it is the end of a thread: the holder is that thread
    ends_thread: bool = False
    #: whether it is about the pause of all threads of an interpreter
    stops_world: bool = False
    #: its structure in the C library
    structure: str | None = None
    #: bytes from its futex word to the TID of the owner
    owner_offset: int | None = None


KINDS: Mapping[LockKind, Kind] = {
    "gil": Kind(
        "recorded: the GIL names the thread state that holds it",
        title="the GIL", records_owner=True, own_threads_only=True, passed_on=True, waiters_wake=True),
    "mutex": Kind(
        "recorded, except where a mutex keeps no owner (elided locks)", name="pthread mutex",
        records_owner=True, own_threads_only=True, structure="pthread_mutex_t", owner_offset=8),
    "rwlock": Kind(
        "the writer is recorded; readers are only counted: derived where the machine code of a thread proves that it "
        "reads, candidates where a thread only has the lock's address on its stack", name="pthread rwlock",
        records_owner=True, has_readers=True, own_threads_only=True, structure="pthread_rwlock_t", owner_offset=24),
    "thread-exit": Kind(
        "recorded: the thread whose descriptor is waited on",
        title="the end of a thread", held="", records_owner=True, own_threads_only=True, ends_thread=True),
    "dynamic-linker": Kind(
        "recorded: recursive mutexes of the dynamic linker", name="lock of the dynamic linker",
        records_owner=True, own_threads_only=True, structure="pthread_mutex_t"),
    "stdio": Kind(
        "recorded: the lock of a `FILE` names the thread's descriptor", name="lock of a FILE",
        records_owner=True, own_threads_only=True),
    "barrier": Kind(
        "missing threads are counted: inferred if there are exactly as many other threads, candidates "
        "otherwise", name="barrier",
        no_owner="arrivals-not-recorded", gathers=True, own_threads_only=True,
        structure="pthread_barrier_t"),
    "static-guard": Kind(
        "derived where the machine code of a thread proves it; inferred: the only thread between acquisition and "
        "release of the guard", name="C++ static guard",
        held="run by", own_threads_only=True),
    "once": Kind(
        "derived: the thread in which `pthread_once` has called the initialiser, if its frame contains the address; "
        "inferred: the only thread that may be in the initialiser", name="pthread_once",
        held="run by", own_threads_only=True),
    "malloc-arena": Kind(
        "inferred: the only thread in the allocator with this arena, candidates otherwise", name="malloc arena"),
    "allocator-lock": Kind(
        "inferred: the only thread inside the allocator, candidates otherwise", name="lock of tcmalloc",
        own_threads_only=True),
    "condvar": Kind(
        "none: any thread may signal it; the mutex that belongs to it is a lock of its own", name="condition variable",
        wait_for="any", no_owner="condvar-has-no-owner", is_event=True, own_threads_only=True,
        structure="pthread_cond_t"),
    "semaphore": Kind(
        "none: any thread may post it; candidates: threads whose machine code has acquired it and can release it",
        name="POSIX semaphore",
        wait_for="any", no_owner="semaphore-has-no-owner", is_event=True,
        handler_may_release=True, own_threads_only=True, structure="sem_t"),
    "openmp-barrier": Kind(
        "inferred: the members of the team that have not arrived; an idle pool has none", name="OpenMP barrier",
        gathers=True, is_event=True),
    "openmp-lock": Kind(
        "derived where the machine code of a thread proves it; inferred: the only thread inside the critical section, "
        "or the thread whose task a nested lock names; candidates otherwise", name="OpenMP lock"),
    "absl-mutex": Kind(
        "not recorded, readers are counted: derived where the machine code of a thread proves it, candidates otherwise",
        name="absl::Mutex", has_readers=True, own_threads_only=True),
    "absl-condvar": Kind(
        "none: any thread may signal it, or make the condition of `absl::Mutex::Await` true", name="absl::CondVar",
        wait_for="any", no_owner="condvar-has-no-owner", is_event=True, own_threads_only=True),
    "boost-shared-mutex": Kind(
        "not recorded, readers are counted: derived where the machine code of a thread proves it, candidates otherwise",
        name="boost::shared_mutex", has_readers=True, own_threads_only=True),
    "qt-mutex": Kind(
        "derived where the machine code of a thread proves it, or inside a `with QMutexLocker` block of it; "
        "candidates otherwise", name="QMutex",
        own_threads_only=True),
    "qt-recursive-mutex": Kind(
        "recorded: the ident of the thread", name="QRecursiveMutex", records_owner=True, own_threads_only=True),
    "qt-rwlock": Kind(
        "recorded if it is recursive; otherwise readers are only counted: derived where the machine code of a thread "
        "proves it, or inside a `with QReadLocker` or `with QWriteLocker` block; candidates otherwise",
        name="QReadWriteLock", records_owner=True, has_readers=True, own_threads_only=True),
    "qt-semaphore": Kind(
        "none: any thread may release it", name="QSemaphore", wait_for="any", no_owner="semaphore-has-no-owner",
        is_event=True),
    "qt-call": Kind(
        "derived: the thread that has the event of the call in its queue; inferred: the thread that handles it",
        name="blocking queued call", held="to be run by", holds="is to run", own_threads_only=True),
    "parking-lot-mutex": Kind(
        "derived where a guard in a frame of a thread proves it, candidates otherwise", name="parking_lot Mutex",
        own_threads_only=True),
    "parking-lot-rwlock": Kind(
        "not recorded, readers are counted: derived where a guard in a frame of a thread proves it, candidates "
        "otherwise", name="parking_lot RwLock", has_readers=True, own_threads_only=True),
    "parking-lot-condvar": Kind(
        "none: any thread may notify it", name="parking_lot Condvar", wait_for="any", no_owner="condvar-has-no-owner",
        is_event=True, own_threads_only=True),
    "parking-lot-once": Kind(
        "not recorded: candidates only", name="parking_lot Once", held="run by", own_threads_only=True),
    "rust-mutex": Kind(
        "derived where the machine code of a thread proves it, candidates otherwise", name="Rust Mutex",
        own_threads_only=True),
    "rust-rwlock": Kind(
        "not recorded, readers are counted: derived where the machine code of a thread proves it, candidates otherwise",
        name="Rust RwLock", has_readers=True, own_threads_only=True),
    "rust-condvar": Kind(
        "none: any thread may notify it; also channels", name="Rust Condvar", wait_for="any",
        no_owner="condvar-has-no-owner", is_event=True, own_threads_only=True),
    "rust-once": Kind("not recorded: candidates only", name="Rust Once", held="run by", own_threads_only=True),
    "rust-park": Kind(
        "none: any thread may unpark it; also channels", name="thread::park", wait_for="any",
        no_owner="park-has-no-owner", is_event=True, own_threads_only=True),
    "tbb-mutex": Kind(
        "derived where the machine code of a thread proves it, candidates otherwise", name="tbb::mutex",
        own_threads_only=True),
    "tbb-rwlock": Kind(
        "not recorded, readers are counted: candidates only", name="tbb::rw_mutex", has_readers=True,
        own_threads_only=True),
    "tbb-tasks": Kind(
        "derived: the threads that run a task of `task_group` or `parallel_for` that the waiting thread waits for",
        name="TBB tasks", held="to be finished by", holds="has to finish", no_owner="tasks-left",
        is_event=True, own_threads_only=True),
    "tbb-wait": Kind(
        "none: another thread wakes it; a worker without tasks is `idle`", name="event of TBB", wait_for="any",
        no_owner="tbb-has-no-owner", is_event=True, own_threads_only=True),
    "pool-job": Kind(
        "inferred: the threads that may finish it, if each of them waits for something, or if it is only one thread",
        name="job of a thread pool", held="to be finished by", holds="may have to finish", wait_for="any",
        is_event=True, own_threads_only=True),
    "java-monitor": Kind(
        "recorded; derived where the object is in the owner's stack of locks (JDK 21 and later)", name="Java monitor",
        records_owner=True, own_threads_only=True, waiters_wake=True),
    "java-condition": Kind(
        "none: any thread that has the monitor may notify it", name="Object.wait", wait_for="any",
        no_owner="java-condition-has-no-owner", is_event=True, own_threads_only=True),
    "java-lock": Kind(
        "recorded; a candidate if the lock is of a class of the program", name="Java lock",
        records_owner=True, own_threads_only=True),
    "java-rwlock": Kind(
        "recorded: the writer, or the first of the readers; further readers are only counted",
        name="Java read-write lock", records_owner=True, has_readers=True, own_threads_only=True),
    "java-park": Kind(
        "none: any thread may unpark it", name="LockSupport.park", wait_for="any",
        no_owner="park-has-no-owner", is_event=True, own_threads_only=True),
    "spin-lock": Kind(
        "derived where the machine code of a thread proves it, candidates otherwise", name="spin lock", spins=True),
    "py-lock": Kind(
        "derived: the thread inside a `with` block of it, also in a suspended frame; derived or inferred: the thread "
        "that has called `acquire` and will release it; candidates otherwise", name="threading.Lock",
        own_threads_only=True, may_await_signal=True),
    "py-rlock": Kind(
        "recorded", name="threading.RLock",
        records_owner=True, own_threads_only=True),
    "py-fast-rlock": Kind(
        "recorded: the ident of the thread; inferred where that thread is in compiled code", name="FastRLock",
        records_owner=True, own_threads_only=True),
    "py-import": Kind(
        "recorded: the lock of a module while it is imported", name="import lock",
        records_owner=True, own_threads_only=True),
    "py-buffered-io": Kind(
        "recorded: the lock of a buffered file", name="lock of a buffered file",
        records_owner=True, own_threads_only=True),
    "py-mutex": Kind(
        "a `PyMutex` of CPython or an extension: derived where the machine code of a thread proves it, or where it was "
        "passed on already; candidates otherwise",
        name="PyMutex", own_threads_only=True),
    "py-critical-section": Kind(
        "derived: the attached thread whose active critical section names the object's lock", name="critical section",
        own_threads_only=True, passed_on=True),
    "stop-the-world": Kind(
        "recorded: the thread that requested it; derived: the attached threads that have not paused",
        held="requested by", records_owner=True, own_threads_only=True, passed_on=True, stops_world=True),
    "py-condition": Kind(
        "none: any thread may wake a waiting thread; also queues and futures", name="threading.Condition",
        wait_for="any", no_owner="condition-has-no-owner", is_event=True, may_await_signal=True,
        own_threads_only=True),
    "py-event": Kind(
        "none: any thread may set it", name="threading.Event",
        wait_for="any", no_owner="event-has-no-owner", is_event=True, may_await_signal=True,
        own_threads_only=True),
    "py-semaphore": Kind(
        "none: any thread may release it", name="threading.Semaphore",
        wait_for="any", no_owner="py-semaphore-has-no-owner", is_event=True,
        may_await_signal=True, own_threads_only=True),
    "file-lock": Kind(
        "derived: for a live process /proc shows the descriptors through which a file is locked; a thread that waits "
        "for its own process is the holder if it is the only thread; candidates: threads that use the descriptor",
        name="file lock", own_threads_only=True, may_be_outside=True, by_name=True),
    "descriptor": Kind(
        "none: for a live process /proc shows the other end of a pipe or socket",
        wait_for="any", outside=True),
    "futex": Kind(
        "not known: a futex word that fits no other kind; candidates only", name="futex word",
        handler_may_release=True, own_threads_only=True),
}
_UNKNOWN = Kind()
#: What a condition is called that is part of something else, by the lock's state.
_PARTS_OF = {"queue is empty": "queue.Queue", "queue is full": "queue.Queue", "not all tasks are done": "queue.Queue",
             "result is pending": "result"}
#: What an object of `multiprocessing` is called whose name does not differ by the module alone.
_SHARED = {"queue.Queue": "multiprocessing.JoinableQueue"}
_ROWS: Mapping[str, Kind] = {str(kind): row for kind, row in KINDS.items()}


def kind_of(kind: str) -> Kind:
    """The row of a kind; that of a plain lock for a kind that is not in the table, as of a newer report."""
    return _ROWS.get(kind, _UNKNOWN)


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
