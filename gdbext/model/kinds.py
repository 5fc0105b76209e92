"""The table of lock kinds: a row for each kind that a report can have, with what holds for every lock of that kind.

How a kind is recognised and decoded is not here: see ``waits/``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from gdbext.record import record

LockKind = Literal[
    "gil", "mutex", "rwlock", "condvar", "semaphore", "barrier", "once", "spin-lock", "thread-exit", "static-guard",
    "dynamic-linker", "stdio", "malloc-arena", "openmp-barrier", "openmp-lock", "py-lock", "py-rlock", "py-mutex",
    "py-critical-section", "py-event", "py-condition", "py-semaphore", "py-import", "py-buffered-io", "stop-the-world",
    "futex", "descriptor"]

#: Kinds that are named outside of this table.
CONDVAR: Final = "condvar"
DESCRIPTOR: Final = "descriptor"
FUTEX: Final = "futex"
GIL: Final = "gil"
RWLOCK: Final = "rwlock"
SEMAPHORE: Final = "semaphore"
THREAD_EXIT: Final = "thread-exit"


@record
class Kind:
    """A row. The defaults are those of a plain lock that does not record its owner."""

    #: what a reader sees instead of the kind and the address
    title: str | None = None
    #: the words before the holders, if not "held by"; empty where the title says it
    held: str | None = None
    #: whether a waiter needs ``all`` holders to release it or ``any`` one of them
    wait_for: Literal["all", "any"] = "all"
    #: whether the lock itself names its owner
    records_owner: bool = False
    #: why nobody is known to hold it, for kinds that have no owner
    no_owner: str | None = None
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
    #: whether it is not a lock but something outside of the process
    outside: bool = False
    #: whether it is the end of a thread: the holder is that thread
    ends_thread: bool = False
    #: whether it is about the pause of all threads of an interpreter
    stops_world: bool = False
    #: its structure in the C library
    structure: str | None = None
    #: bytes from its futex word to the TID of the owner
    owner_offset: int | None = None


KINDS: Mapping[LockKind, Kind] = {
    "gil": Kind(title="the GIL", records_owner=True, own_threads_only=True, passed_on=True, waiters_wake=True),
    "mutex": Kind(records_owner=True, own_threads_only=True, structure="pthread_mutex_t", owner_offset=8),
    "rwlock": Kind(records_owner=True, has_readers=True, own_threads_only=True, structure="pthread_rwlock_t",
                   owner_offset=24),
    "condvar": Kind(wait_for="any", no_owner="a condition variable has no owner: any thread may signal it",
                    is_event=True, structure="pthread_cond_t"),
    "semaphore": Kind(wait_for="any", no_owner="a semaphore has no owner: any thread may post it", is_event=True,
                      handler_may_release=True, structure="sem_t"),
    "barrier": Kind(no_owner="the threads that are still to come are not recorded", gathers=True,
                    own_threads_only=True, structure="pthread_barrier_t"),
    "once": Kind(held="run by", own_threads_only=True),
    "spin-lock": Kind(),
    "thread-exit": Kind(title="the end of a thread", held="", records_owner=True, own_threads_only=True,
                        ends_thread=True),
    "static-guard": Kind(held="run by", own_threads_only=True),
    "dynamic-linker": Kind(records_owner=True, own_threads_only=True, structure="pthread_mutex_t"),
    "stdio": Kind(records_owner=True, own_threads_only=True),
    "malloc-arena": Kind(),
    "openmp-barrier": Kind(gathers=True, is_event=True),
    "openmp-lock": Kind(),
    "py-lock": Kind(own_threads_only=True, may_await_signal=True),
    "py-rlock": Kind(records_owner=True, own_threads_only=True),
    "py-mutex": Kind(own_threads_only=True),
    "py-critical-section": Kind(own_threads_only=True, passed_on=True),
    "py-event": Kind(wait_for="any", no_owner="an event has no owner: any thread may set it", is_event=True,
                     may_await_signal=True, own_threads_only=True),
    "py-condition": Kind(wait_for="any", no_owner="no owner: any thread may let it go on", is_event=True,
                         may_await_signal=True, own_threads_only=True),
    "py-semaphore": Kind(wait_for="any", no_owner="a semaphore has no owner: any thread may release it", is_event=True,
                         may_await_signal=True, own_threads_only=True),
    "py-import": Kind(records_owner=True, own_threads_only=True),
    "py-buffered-io": Kind(records_owner=True, own_threads_only=True),
    "stop-the-world": Kind(held="requested by", records_owner=True, own_threads_only=True, passed_on=True,
                           stops_world=True),
    "futex": Kind(handler_may_release=True),
    "descriptor": Kind(wait_for="any", outside=True),
}
_UNKNOWN = Kind()
_ROWS: Mapping[str, Kind] = {str(kind): row for kind, row in KINDS.items()}


def kind_of(kind: str) -> Kind:
    """The row of a kind; that of a plain lock for a kind that is not in the table, as of a newer report."""
    return _ROWS.get(kind, _UNKNOWN)


def kind_of_id(lock_id: str) -> Kind:
    """The row of the kind in a lock's id."""
    return kind_of(lock_id.partition(":")[0])


def id_of_lock(kind: LockKind, address: int) -> str:
    """The id of a lock in reports."""
    return f"{kind}:{address:#x}"
