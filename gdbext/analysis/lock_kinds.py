"""The table of lock kinds: the functions one blocks in, how the lock is found and decoded, how its owners are known.

A row turns a futex wait into a `View` of the lock, or None when the wait does not fit the kind. Rows are tried in
order; the names of the C library's functions on the waiter's stack, where there are any, rule kinds out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from gdbext.errors import MemoryUnreadable
from gdbext.glibc import condvar, mutex, pthread, rwlock, semaphore
from gdbext.glibc.futex import FUTEX_LOCK_PI, FUTEX_LOCK_PI2, FUTEX_WAIT, FUTEX_WAIT_BITSET, FutexWait
from gdbext.layout.table import Layouts
from gdbext.model import EXCLUSIVE
from gdbext.target.protocol import Memory


@dataclass(frozen=True)
class View:
    """A lock as its memory tells it, before owners are matched with threads.

    `owner` is the recorded TID; `owner_thread` a thread number where the lock itself belongs to a thread.
    `readers` counts holders that are not named. `elsewhere` tells that the owner may be in another process.
    """

    kind: str
    address: int
    state: str
    mode: str = EXCLUSIVE
    owner: int | None = None
    owner_thread: int | None = None
    readers: int = 0
    elsewhere: bool = False
    wait_for: str = "all"
    why: str | None = None


@dataclass(frozen=True)
class Context:
    """What recognising a lock may look at. `sleepers` counts the threads on each futex word."""

    memory: Memory
    layouts: Layouts
    sleepers: Mapping[int, int]
    descriptors: Mapping[int, int]


@dataclass(frozen=True)
class LockKind:
    """One row: `functions` are the public names of the functions in which a thread blocks on this kind."""

    kind: str
    functions: frozenset[str]
    find: Callable[[Context, FutexWait], View | None]


def view_mutex(state: mutex.MutexState) -> View:
    """A mutex as a `View`."""
    text = "locked" if state.locked else "free"
    if state.owner_died:
        text = "its owner died"
    return View("mutex", state.address, text, owner=state.owner, elsewhere="process-shared" in state.kind,
                why=None if state.owner or not state.locked else "the mutex is locked and records no owner")


def view_rwlock(state: rwlock.RwlockState, mode: str) -> View:
    """A read-write lock as a `View`."""
    return View("rwlock", state.address, state.state, mode, owner=state.writer, readers=state.readers,
                elsewhere=state.process_shared)


def _join(context: Context, wait: FutexWait) -> View | None:
    if wait.command not in (FUTEX_WAIT, FUTEX_WAIT_BITSET):
        return None
    number = pthread.pthread_of_join(context.layouts, wait.address, context.descriptors)
    if number is None:
        return None
    address = next(at for at, other in context.descriptors.items() if other == number)
    return View("thread-exit", address, "running", owner_thread=number)


def _rwlock(context: Context, wait: FutexWait) -> View | None:
    if wait.command != FUTEX_WAIT_BITSET:
        return None
    found = rwlock.find_rwlock(context.memory, context.layouts, wait.address, wait.expected)
    if found is None:
        return None
    state, mode = found
    return view_rwlock(state, mode)


def _mutex(context: Context, wait: FutexWait) -> View | None:
    state = mutex.decode_mutex(context.memory, context.layouts, wait.address)
    if not state.plausible or not state.locked:
        return None
    if wait.command in (FUTEX_LOCK_PI, FUTEX_LOCK_PI2):
        fits = "priority-inheriting" in state.kind
    elif "robust" in state.kind:
        fits = bool(wait.expected & 0x80000000)
    else:
        fits = wait.expected & 0x7FFFF == 2
    # a word without an owner is some low-level lock of the C library or of another run-time, not a mutex
    return view_mutex(state) if fits and state.owner else None


def _condvar(context: Context, wait: FutexWait) -> View | None:
    if wait.command not in (FUTEX_WAIT, FUTEX_WAIT_BITSET):
        return None
    state = condvar.find_condvar(context.memory, context.layouts, wait.address, context.sleepers[wait.address])
    if state is None:
        return None
    return View("condvar", state.address, "waiting for a signal", wait_for="any",
                why="a condition variable has no owner: any thread may signal it")


def _semaphore(context: Context, wait: FutexWait) -> View | None:
    if wait.command not in (FUTEX_WAIT, FUTEX_WAIT_BITSET) or wait.expected != 0:
        return None
    state = semaphore.decode_semaphore(context.memory, context.layouts, wait.address)
    if not state.plausible or state.value or state.waiters < context.sleepers[wait.address]:
        return None
    return View("semaphore", state.address, "zero", wait_for="any", elsewhere=state.process_shared,
                why="a semaphore has no owner: any thread may post it")


def _names(*names: str) -> frozenset[str]:
    return frozenset(names)


KINDS = (
    LockKind("thread-exit", _names("pthread_join", "pthread_timedjoin_np", "pthread_clockjoin_np", "thrd_join"), _join),
    LockKind("rwlock", _names("pthread_rwlock_rdlock", "pthread_rwlock_wrlock", "pthread_rwlock_timedrdlock",
                              "pthread_rwlock_timedwrlock", "pthread_rwlock_clockrdlock",
                              "pthread_rwlock_clockwrlock"), _rwlock),
    LockKind("mutex", _names("pthread_mutex_lock", "pthread_mutex_timedlock", "pthread_mutex_clocklock", "mtx_lock",
                             "mtx_timedlock", "pthread_cond_wait", "pthread_cond_timedwait",
                             "pthread_cond_clockwait"), _mutex),
    LockKind("semaphore", _names("sem_wait", "sem_timedwait", "sem_clockwait"), _semaphore),
    LockKind("condvar", _names("pthread_cond_wait", "pthread_cond_timedwait", "pthread_cond_clockwait", "cnd_wait",
                               "cnd_timedwait"), _condvar),
)
_NAMED = frozenset().union(*[row.functions for row in KINDS])


def recognise(context: Context, wait: FutexWait, functions: Collection[str]) -> View:
    """The lock that a futex wait is for; of kind ``futex`` when it fits no row.

    :param functions: public names of the functions on top of the waiter's stack, as far as they are known.
    """
    known = _NAMED & set(functions)
    for row in KINDS:
        if known and not known & row.functions:
            continue
        try:
            view = row.find(context, wait)
        except MemoryUnreadable:
            view = None
        if view is not None:
            return view
    return View("futex", wait.address, "waited for", why="a futex word of unknown meaning records no owner")


def recognise_address(context: Context, address: int, kind: str | None = None) -> tuple[View | None, str | None]:
    """The lock at an address that a user gave, when nobody waits there.

    :param kind: what the user takes it for, if they said: a free lock is zeros, and so is much else.
    :return: the lock, or None; and what to tell the user about the address.
    """
    views: list[View] = []
    notes: list[str | None] = []
    state = mutex.decode_mutex(context.memory, context.layouts, address)
    if state.plausible and state.locked and state.owner:
        views.append(view_mutex(state))
        notes.append(None)
    for base, member in rwlock.lock_of_word(context.layouts, context.memory, address):
        decoded = rwlock.decode_rwlock(context.memory, context.layouts, base)
        if decoded.state in ("write-locked", "read-locked") or (base == address and kind == "rwlock"):
            views.append(view_rwlock(decoded, EXCLUSIVE))
            notes.append(None if base == address else
                         f"{address:#x} is {member} of the pthread_rwlock_t at {base:#x}")
    held = [i for i, view in enumerate(views) if view.owner or view.readers]
    chosen = held if held else list(range(len(views)))
    if len(chosen) == 1:
        return views[chosen[0]], notes[chosen[0]]
    if len(chosen) > 1:
        kinds = ", ".join(sorted({f"{views[i].kind} at {views[i].address:#x}" for i in chosen}))
        return None, f"it could be any of: {kinds}"
    return None, None
