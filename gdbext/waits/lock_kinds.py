"""The recognisers of native locks: the functions in which threads block, and how the lock is found and decoded.

A row turns a futex wait into a `SeenLock`, or None if the wait does not fit the kind. Rows are tried in order. The
names of the run-time libraries' functions on the waiter's stack, if any are known, exclude kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from gdbext.errors import MemoryUnreadable, if_unreadable
from gdbext.glibc import barrier, condvar, linker, mutex, pthread, rwlock, semaphore, stdio
from gdbext.glibc.futex import (
    FUTEX_LOCK_PI,
    FUTEX_LOCK_PI2,
    FUTEX_WAIT,
    FUTEX_WAIT_BITSET,
    FUTEX_WAIT_REQUEUE_PI,
    PRIVATE,
    FutexWait,
)
from gdbext.inferior.cache import read_u32
from gdbext.inferior.protocol import Memory, Module
from gdbext.layout.table import Layouts
from gdbext.locks.seen import (
    ALLOCATES,
    ARRIVING,
    FREE,
    INITIALISES,
    MENTIONS,
    READERS,
    RUNS_ONCE,
    UNKNOWN,
    NotRecorded,
    SeenLock,
    by_descriptor,
    by_tid,
    held_by,
)
from gdbext.model import EXCLUSIVE, Lock, Mode
from gdbext.model.kinds import LockKind
from gdbext.model.reasons import Reason, because
from gdbext.record import record
from gdbext.threads.site import NOWHERE, Site

# libstdc++'s guard of a static variable with waiters: being initialised (bit 8), waited for (bit 16); GCC 12
# libstdc++-v3/libsupc++/guard.cc
_GUARD_WAITED_FOR = 0x10100
# std::future's status word with waiters, not ready yet (GCC 12 libstdc++-v3/include/bits/atomic_futex.h)
_FUTURE_NOT_READY = 0x80000000
# pthread_once_t: being initialised (bit 0); bit 1 means done (glibc 2.36 nptl/pthread_once.c)
_ONCE_IN_PROGRESS, _ONCE_BITS = 1, 3
#: The word of a low-level lock that is held and may have waiters (glibc 2.36 sysdeps/nptl/lowlevellock.h).
_CONTENDED = 2


@record
class Context:
    """The input of recognisers. `sleepers` counts the threads that sleep on each futex word.

    `descriptors` is ``struct pthread *`` -> thread number, `tids` are the threads' TIDs, `modules` all loaded files.
    """

    memory: Memory
    layouts: Layouts
    sleepers: Mapping[int, int]
    descriptors: Mapping[int, int]
    modules: Sequence[Module]
    tids: Container[int] = ()

    @cached_property
    def linker_locks(self) -> Mapping[int, str]:
        """Address of each lock of the dynamic linker -> its name."""
        return linker.find_linker_locks(self.memory, self.layouts, self.modules)

    @cached_property
    def files(self) -> Mapping[int, tuple[int, int]]:
        """Address of each stdio lock -> (``FILE *``, file descriptor)."""
        return {lock: (file, descriptor) for file, lock, descriptor
                in stdio.iter_files(self.memory, self.layouts, self.modules)}


@record
class Recogniser:
    """One row: `functions` are the public names of the functions in which a thread blocks on this kind.

    A kind that `needs_name` is recognised only if one of them is on the stack: words of other kinds are similar.
    """

    kind: LockKind
    functions: frozenset[str]
    find: Callable[[Any, FutexWait, Site], SeenLock | None]
    needs_name: bool = False


def mutex_lock(state: mutex.MutexState) -> SeenLock:
    """The lock of a decoded mutex."""
    text = "locked" if state.locked else "free"
    if state.owner_died:
        text = "its owner died"
    # the kernel marks a robust mutex whose owner exits, so an owner that is not here is in another process
    shared = "process-shared" in state.kind or "robust" in state.kind
    return SeenLock("mutex", state.address, text, held=by_tid(state.owner), shared=shared,
                why=None if state.owner or not state.locked else because("records-no-owner", what="mutex"))


def _rwlock_lock(state: rwlock.RwlockState, mode: Mode) -> SeenLock:
    held = by_tid(state.writer)
    if held == UNKNOWN and state.readers:
        held = NotRecorded(READERS, state.readers)
    return SeenLock("rwlock", state.address, state.state, mode, held=held, shared=state.process_shared)


def spin_lock(address: int) -> SeenLock:
    """The spin lock in whose loop a thread is; its word does not record the owner."""
    return SeenLock("spin-lock", address, "locked", held=NotRecorded(MENTIONS),
                why=because("records-no-owner", what="spin-lock"))


def _join(context: Context, wait: FutexWait, site: Site) -> SeenLock | None:
    if wait.command not in (FUTEX_WAIT, FUTEX_WAIT_BITSET):
        return None
    address = pthread.pthread_of_join(context.layouts, wait.address, context.descriptors)
    if address is not None:
        return SeenLock("thread-exit", address, "running", held=held_by((context.descriptors[address],)))
    ended = pthread.ended_thread_of_join(context.memory, context.layouts, wait.address)
    return SeenLock("thread-exit", ended, FREE) if ended is not None else None


def _linker(context: Context, wait: FutexWait, site: Site) -> SeenLock | None:
    name = context.linker_locks.get(wait.address)
    if name is None:
        return None
    state = mutex.decode_mutex(context.memory, context.layouts, wait.address)
    return SeenLock("dynamic-linker", wait.address, "locked", held=by_tid(state.owner),
                name=f"{name} of the dynamic linker",
                why=None if state.owner else because("records-no-owner", what="linker"))


def _owned_by_descriptor(context: Context, wait: FutexWait, site: Site) -> SeenLock | None:
    # a recursive lock of the C library, for a FILE, the list of FILEs or exit(): its owner is a `struct pthread *`
    if wait.command != FUTEX_WAIT or wait.expected != _CONTENDED:
        return None
    file = context.files.get(wait.address)
    state = stdio.decode_file_lock(context.memory, context.layouts, wait.address)
    number = context.descriptors.get(state.owner or 0)
    if number is None and file is None:
        return None
    kind: LockKind = "stdio"
    name = "the list of all FILEs"
    if file is not None:
        name = f"FILE {file[0]:#x}" + (f", fd {file[1]}" if file[1] >= 0 else "")
    elif "exit" in site.functions or "quick_exit" in site.functions:
        kind, name = "mutex", "the lock of exit()"
    elif not _STDIO & set(site.functions):
        kind, name = "mutex", "a lock of the C library"
    return SeenLock(kind, wait.address, "locked", name=name, held=by_descriptor(number, state.owner),
                why=None if state.owner else because("records-no-owner", what="stdio"))


def _rwlock(context: Context, wait: FutexWait, site: Site) -> SeenLock | None:
    found = rwlock.find_rwlock(context.memory, context.layouts, wait.address, wait.expected,
                               context.sleepers[wait.address])
    return _rwlock_lock(*found) if found is not None else None


def _mutex(context: Context, wait: FutexWait, site: Site) -> SeenLock | None:
    state = mutex.decode_mutex(context.memory, context.layouts, wait.address)
    if not state.plausible or not state.locked:
        return None
    if wait.command in (FUTEX_LOCK_PI, FUTEX_LOCK_PI2):
        fits = "priority-inheriting" in state.kind
    elif "robust" in state.kind:
        fits = bool(wait.expected & 0x80000000)
    else:
        fits = wait.expected & 0x7FFFF == _CONTENDED
    # a word without an owner is a low-level lock of the C library or of another run-time, not a mutex; with an unknown
    # owner the stack must show that it is a mutex
    called = not _MUTEX.isdisjoint(site.functions)
    if fits and not state.owner and state.elides and called:
        return replace(mutex_lock(state), why=because("records-no-owner", what="elided-mutex"))
    known = state.owner in context.tids or called
    return mutex_lock(state) if fits and state.owner and known else None


def _guard(context: Context, wait: FutexWait, site: Site) -> SeenLock | None:
    if wait.command != FUTEX_WAIT or not wait.expected == read_u32(context.memory, wait.address) == _GUARD_WAITED_FOR:
        return None
    return SeenLock("static-guard", wait.address, "in progress", held=NotRecorded(INITIALISES))


def _barrier(context: Context, wait: FutexWait, site: Site) -> SeenLock | None:
    if wait.command != FUTEX_WAIT:
        return None
    state = barrier.find_barrier(context.memory, context.layouts, wait.address, wait.expected,
                                 context.sleepers[wait.address])
    if state is None:
        return None
    return SeenLock("barrier", state.address, f"{state.arrived} of {state.count} arrived", held=NotRecorded(
        None if state.process_shared else ARRIVING, state.missing), shared=state.process_shared)


def _condvar(context: Context, wait: FutexWait, site: Site) -> SeenLock | None:
    if wait.command not in (FUTEX_WAIT, FUTEX_WAIT_BITSET, FUTEX_WAIT_REQUEUE_PI):
        return None
    state = condvar.find_condvar(context.memory, context.layouts, wait.address, context.sleepers[wait.address])
    if state is None:
        return None
    if state.requeued_to is not None:
        # up to glibc 2.24 a broadcast moves the waiters to the mutex, in the kernel
        moved = mutex.decode_mutex(context.memory, context.layouts, state.requeued_to)
        if moved.plausible and moved.locked and moved.owner:
            return mutex_lock(moved)
    return SeenLock("condvar", state.address, "waiting for a signal", shared=state.process_shared,
                why=because("condvar-has-no-owner"))


def _semaphore(context: Context, wait: FutexWait, site: Site) -> SeenLock | None:
    if wait.command not in (FUTEX_WAIT, FUTEX_WAIT_BITSET) or wait.expected != 0:
        return None
    state = semaphore.decode_semaphore(context.memory, context.layouts, wait.address)
    if not state.plausible or state.value or state.waiters < context.sleepers[wait.address]:
        return None
    return SeenLock("semaphore", state.address, "zero", shared=state.process_shared,
                    why=because("semaphore-has-no-owner"))


def _once(context: Context, wait: FutexWait, site: Site) -> SeenLock | None:
    if (wait.command != FUTEX_WAIT or wait.expected & _ONCE_BITS != _ONCE_IN_PROGRESS
            or read_u32(context.memory, wait.address) != wait.expected):
        return None
    return SeenLock("once", wait.address, "in progress", held=NotRecorded(RUNS_ONCE))


def _arena(context: Context, wait: FutexWait, site: Site) -> SeenLock | None:
    if wait.command != FUTEX_WAIT or wait.expected != _CONTENDED or read_u32(context.memory, wait.address) == 0:
        return None
    return SeenLock("malloc-arena", wait.address, "locked", held=NotRecorded(ALLOCATES))


def _names(names: str) -> frozenset[str]:
    return frozenset(names.split())


_MUTEX = _names("""
    pthread_mutex_lock pthread_mutex_timedlock pthread_mutex_clocklock mtx_lock mtx_timedlock pthread_cond_wait
    pthread_cond_timedwait pthread_cond_clockwait""")
_STDIO = _names("""
    fopen fopen64 freopen fdopen fclose fcloseall fflush flockfile fread fwrite fgetc getc getchar fgets fputc
    putc putchar fputs puts gets getdelim getline getw putw ungetc printf fprintf vprintf vfprintf dprintf
    vdprintf scanf fscanf vscanf vfscanf __isoc99_scanf __isoc99_fscanf __isoc23_scanf __isoc23_fscanf
    __printf_chk __fprintf_chk __vprintf_chk __vfprintf_chk perror psignal psiginfo fseek fseeko ftell ftello
    fgetpos fsetpos rewind setvbuf setbuf setbuffer setlinebuf feof ferror clearerr fileno fgetwc getwc getwchar
    fgetws fputwc putwc putwchar fputws ungetwc wprintf fwprintf vwprintf vfwprintf fwide popen pclose _IO_getc
    _IO_putc _IO_fflush _IO_flush_all _IO_cleanup __overflow __uflow __underflow __freadable __fwriting
    __fsetlocking error error_at_line err errx warn warnx vwarn vwarnx""")
MALLOC = _names("""
    malloc free cfree calloc realloc reallocarray memalign aligned_alloc posix_memalign valloc pvalloc malloc_trim
    malloc_stats mallinfo mallinfo2 malloc_info mallopt __libc_malloc __libc_free __libc_calloc __libc_realloc
    __libc_memalign _int_malloc _int_free _int_realloc _int_memalign _mid_memalign tcache_init arena_get2
    arena_get_retry sysmalloc malloc_consolidate __malloc_arena_thread_freeres __libc_freeres""")

KINDS = (
    Recogniser("thread-exit", _names("pthread_join pthread_timedjoin_np pthread_clockjoin_np thrd_join"),
               _join),
    # glibc locks these with its own mutex functions, for dlopen, dlsym, thread-local storage and the unwinder
    Recogniser("dynamic-linker", _MUTEX | _names("""
        dlopen dlmopen dlclose dlsym dlvsym dladdr dladdr1 dlinfo dl_iterate_phdr __tls_get_addr exit
        _dl_find_object"""), _linker),
    Recogniser("stdio", _STDIO | _names("exit quick_exit fork _exit"), _owned_by_descriptor),
    Recogniser("rwlock", _names("""
        pthread_rwlock_rdlock pthread_rwlock_wrlock pthread_rwlock_timedrdlock pthread_rwlock_timedwrlock
        pthread_rwlock_clockrdlock pthread_rwlock_clockwrlock setlocale"""), _rwlock),
    Recogniser("mutex", _MUTEX, _mutex),
    Recogniser("static-guard", _names("__cxa_guard_acquire syscall"), _guard),
    Recogniser("barrier", _names("pthread_barrier_wait"), _barrier),
    Recogniser("semaphore", _names("sem_wait sem_timedwait sem_clockwait"), _semaphore),
    Recogniser("condvar", _names("""
        pthread_cond_wait pthread_cond_timedwait pthread_cond_clockwait cnd_wait cnd_timedwait"""), _condvar),
    Recogniser("once", _names("pthread_once call_once"), _once, needs_name=True),
    Recogniser("malloc-arena", MALLOC, _arena, needs_name=True),
)
#: Kinds that only the functions on the stack identify.
NAMED_KINDS = frozenset(row.kind for row in KINDS if row.needs_name)


def functions_of(rows: Sequence[Recogniser]) -> frozenset[str]:
    """The names of all functions of some rows."""
    return frozenset().union(*[row.functions for row in rows])


_NAMED = functions_of(KINDS)


def recognise(context: object, wait: FutexWait, site: Site, rows: Sequence[Recogniser] = KINDS,
              functions: frozenset[str] = _NAMED) -> SeenLock:
    """Recognise the lock of a futex wait; its kind is ``futex`` if the wait fits no row.

    :param context: what the rows need.
    :param functions: those of the rows.
    """
    known = functions & set(site.functions)
    for row in rows:
        if not known & row.functions if known else row.needs_name:
            continue
        try:
            lock = row.find(context, wait, site)
        except MemoryUnreadable:
            continue
        if lock is not None:
            return lock
    return unknown(wait, site)


def unknown(wait: FutexWait, site: Site = NOWHERE) -> SeenLock:
    """A futex word of which only the waiters are known."""
    what = "future" if wait.op == FUTEX_WAIT and wait.expected == _FUTURE_NOT_READY else "futex"
    return SeenLock("futex", wait.address, "waited for", held=NotRecorded(MENTIONS), shared=not wait.op & PRIVATE,
                why=because("records-no-owner", what=what))


def recognise_address(context: Context, address: int, kind: str | None = None) -> tuple[SeenLock | None, Reason | None]:
    """Recognise the lock at an address for which no thread waits.

    :param kind: the kind that the user expects, None if any. It matters for a free lock, which is all zeros.
    :return: the lock, or None; and a note about the address.
    """
    if address in context.linker_locks:
        state = mutex.decode_mutex(context.memory, context.layouts, address)
        return SeenLock("dynamic-linker", address, "locked" if state.locked else "free", held=by_tid(state.owner),
                    name=f"{context.linker_locks[address]} of the dynamic linker"), None
    for lock, (file, descriptor) in context.files.items():
        if address in (file, lock):
            return _file_lock(context, lock, file, descriptor), None
    found: list[tuple[SeenLock, Reason | None]] = []
    state = mutex.decode_mutex(context.memory, context.layouts, address)
    if state.plausible and (state.locked and state.owner or state.owner_died):
        found.append((mutex_lock(state), None))
    for base, member in rwlock.lock_of_word(context.layouts, context.memory, address):
        decoded = rwlock.decode_rwlock(context.memory, context.layouts, base)
        if decoded.state in ("write-locked", "read-locked") or (base == address and kind == "rwlock"):
            found.append((_rwlock_lock(decoded, EXCLUSIVE), None if base == address else because(
                "address-inside", address=address, base=base, structure="pthread_rwlock_t", member=member)))
    chosen = [each for each in found if each[0].held != UNKNOWN] or found
    if len(chosen) == 1:
        return chosen[0]
    if chosen:
        places = sorted({(each.kind, each.address) for each, _ in chosen})
        return None, because("ambiguous-address", kinds=tuple(kind for kind, _ in places),
                             addresses=tuple(at for _, at in places))
    return None, None


@if_unreadable(None)
def _file_lock(context: Context, lock: int, file: int, descriptor: int) -> SeenLock | None:
    state = stdio.decode_file_lock(context.memory, context.layouts, lock)
    return SeenLock("stdio", lock, "locked" if state.word else "free",
                held=held_by((context.descriptors.get(state.owner or 0) if state.word else None,)),
                name=f"FILE {file:#x}" + (f", fd {descriptor}" if descriptor >= 0 else ""))


#: The structures of the C library's kinds.
_STRUCTURES: Mapping[LockKind, str] = {
    "mutex": "pthread_mutex_t", "rwlock": "pthread_rwlock_t", "dynamic-linker": "pthread_mutex_t",
    "barrier": "pthread_barrier_t", "condvar": "pthread_cond_t", "semaphore": "sem_t"}


def size_of_lock(layouts: Layouts | None, kind: str) -> int:
    """Size of a lock, in bytes."""
    structure = _STRUCTURES.get(kind)
    return 8 if layouts is None or structure is None else layouts[structure].size


def member_of_lock(layouts: Layouts | None, lock: Lock, address: int) -> str | None:
    """The member of a lock that begins at an address."""
    structure = _STRUCTURES.get(lock.kind)
    if layouts is not None and structure is not None:
        for name, member in layouts[structure].fields.items():
            if lock.address + member.offset == address:
                return name
    return None
