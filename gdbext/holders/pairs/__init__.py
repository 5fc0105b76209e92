"""The table of functions that acquire and release locks whose owner is not recorded, by exported name and lock kind.

`holders/proven.py` looks for calls of these functions in the machine code of every frame. A new lock kind needs a row
here and no other code. Names are those of dynamic symbols, so C++ names are mangled.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, Literal

from gdbext.arch.protocol import Exchange, ExchangeKind
from gdbext.model.kinds import LockKind
from gdbext.record import record

#: The state of a `RwLock` of Rust that a writer holds.
_WRITER: Final = (1 << 30) - 1
#: The result that shows that a function has acquired the lock.
Success = Literal["always", "zero", "not zero"]


@record
class Call:
    """A function of a pair.

    `argument` is the index of the argument that points to the lock, None if there is only one such lock in the library.
    It points to a place in the lock, `offset` bytes after its start. With `after_attempt`, code calls it only if an
    atomic instruction has not acquired the lock. `wait_flag` is the index of an argument; if that is a constant other
    than 0, the function does not fail.
    """

    name: str
    argument: int | None = 0
    succeeds: Success = "always"
    after_attempt: bool = False
    offset: int = 0
    wait_flag: int | None = None


@record
class Inlined:
    """Atomic instructions by which compiled code acquires and releases a lock, in place of a call.

    The lock's word has `size` bytes and is 0 while the lock is free. An exchange of 0 for one of `acquired` acquires
    it, and so does a comparison that succeeds and stores the compared value plus one of `added`, or with all bits of
    one of them set. Any other exchange of one of the kinds in `releases` may release it, but an addition of a constant
    only if that is one of `subtracted`. A word that `is_bool` is 0 or 1. With `zero_frees`, an exchange or a comparison
    releases it only if it stores the constant 0. If a comparison stores the compared value with `bit` set, it acquires.
    """

    size: int
    acquired: frozenset[int]
    releases: frozenset[ExchangeKind]
    added: frozenset[int] = frozenset()
    subtracted: frozenset[int] = frozenset()
    is_bool: bool = False
    zero_frees: bool = False
    bit: int = 0

    @property
    def may_acquire(self) -> bool:
        """Whether any of the instructions acquires a lock, not only calls of functions."""
        return bool(self.acquired or self.added or self.bit)

    def may_be(self, exchange: Exchange) -> bool:
        """Whether an instruction may acquire or release a lock."""
        return exchange.size == self.size and (exchange.kind in ("exchanges", "compares")
                                               or exchange.kind in self.releases)


@record
class Pairs:
    """The functions for the locks of one kind, all of which have exported names.

    `acquires` and `releases` are called for the lock. While a function of `runs` calls another one back, the thread
    holds the lock. A function of `suspends` gets a lock that is held, and returns with it; while a thread is inside of
    it, it does not hold the lock. Functions of `may_acquire` are for another kind, and most files call them; code may
    call one of them in place of one of `acquires`, by a flag. `inlined` are the instructions in code of the program,
    but not in the interpreter. `versioned` matches the demangled name of a function in which threads wait. Its group is
    the inline namespace of the library's release, which the names in the row lack. If `others_release`, any thread may
    release a lock that one has acquired: the thread is only a candidate, and only if the function that has acquired the
    lock also releases it. The file that exports the functions of `waits` calls code of the program, which may release
    any lock. Only the functions of `waits` do not: they wait for a lock, or wake a thread that does. If `dropped`, it
    is a lock of Rust: the destructor of a guard releases it by one of `inlined`. If no file exports the functions,
    waiting threads may show where they are; then `hidden` are the instructions, also in the library's own code.
    """

    acquires: tuple[Call, ...] = ()
    releases: tuple[Call, ...] = ()
    may_acquire: tuple[Call, ...] = ()
    runs: tuple[Call, ...] = ()
    suspends: tuple[Call, ...] = ()
    inlined: Inlined | None = None
    versioned: re.Pattern[str] | None = None
    others_release: bool = False
    waits: tuple[Call, ...] = ()
    dropped: bool = False
    hidden: Inlined | None = None


def _calls(names: str, succeeds: Success = "always", argument: int | None = 0) -> tuple[Call, ...]:
    return tuple([Call(name, argument, succeeds) for name in names.split()])


def _absl(names: str, succeeds: Success = "always", argument: int = 0) -> tuple[Call, ...]:
    return _calls(" ".join(f"_ZN4absl{name}" for name in names.split()), succeeds, argument)


PAIRS: Final[Mapping[LockKind, Pairs]] = {
    # only pthread_rwlock_unlock releases it; std::shared_mutex is compiled into calls of these
    "rwlock": Pairs(
        _calls("pthread_rwlock_rdlock pthread_rwlock_wrlock")
        + _calls("pthread_rwlock_tryrdlock pthread_rwlock_trywrlock pthread_rwlock_timedrdlock "
                 "pthread_rwlock_timedwrlock pthread_rwlock_clockrdlock pthread_rwlock_clockwrlock", "zero"),
        _calls("pthread_rwlock_unlock"), _calls("pthread_mutex_lock")),
    "spin-lock": Pairs(
        _calls("pthread_spin_lock") + _calls("pthread_spin_trylock", "zero"), _calls("pthread_spin_unlock")),
    # Qt 5.15 and 6.4 src/corelib/thread/qreadwritelock.h. Programs compiled with Qt 6.6 or later ignore
    # the result of a call without timeout; with 6.11 or later they call a function only for a contended lock
    "qt-rwlock": Pairs(
        _calls("_ZN14QReadWriteLock11lockForReadEv _ZN14QReadWriteLock12lockForWriteEv")
        + _calls("_ZN14QReadWriteLock14tryLockForReadEv _ZN14QReadWriteLock15tryLockForWriteEv "
                 "_ZN14QReadWriteLock14tryLockForReadEi _ZN14QReadWriteLock15tryLockForWriteEi "
                 "_ZN14QReadWriteLock14tryLockForReadE14QDeadlineTimer "
                 "_ZN14QReadWriteLock15tryLockForWriteE14QDeadlineTimer", "not zero"),
        _calls("_ZN14QReadWriteLock6unlockEv _ZN19QBasicReadWriteLock15contendedUnlockEPv"),
        suspends=_calls("_ZN14QWaitCondition4waitEP14QReadWriteLockm "
                        "_ZN14QWaitCondition4waitEP14QReadWriteLock14QDeadlineTimer", argument=1)),
    # Qt 5.15, 6.4 and the development branch, src/corelib/thread/qmutex.h: 1 is locked, 3 is locked with waiting
    # threads, which only `lockInternal` stores. QtCore itself inlines the first attempt too
    "qt-mutex": Pairs(
        (*_calls("_ZN6QMutex4lockEv"), Call("_ZN11QBasicMutex12lockInternalEv", after_attempt=True))
        + _calls("_ZN6QMutex7tryLockEi", "not zero")
        + tuple([Call(name, 0, "not zero", after_attempt=True) for name in (
            "_ZN11QBasicMutex12lockInternalEi", "_ZN11QBasicMutex12lockInternalE14QDeadlineTimer")]),
        _calls("_ZN6QMutex6unlockEv _ZN11QBasicMutex14unlockInternalEv "
               "_ZN11QBasicMutex19unlockInternalFutexEPv"),
        suspends=_calls("_ZN14QWaitCondition4waitEP6QMutexm _ZN14QWaitCondition4waitEP6QMutex14QDeadlineTimer",
                        argument=1),
        inlined=Inlined(8, frozenset((1,)), frozenset(("exchanges", "compares")))),
    # POSIX.1-2017; C11 7.26.4, whose functions return thrd_success, which is 0
    "mutex": Pairs(
        _calls("pthread_mutex_lock mtx_lock")
        + _calls("pthread_mutex_trylock pthread_mutex_timedlock pthread_mutex_clocklock mtx_trylock mtx_timedlock",
                 "zero"),
        _calls("pthread_mutex_unlock mtx_unlock"),
        suspends=_calls("pthread_cond_wait pthread_cond_timedwait cnd_wait cnd_timedwait pthread_cond_clockwait",
                        argument=1)),
    # Abseil 20180600 to 20260817, absl/synchronization/mutex.h and mutex.cc: a function acquires the mutex even if its
    # time is over or its condition is false. Those with "Slow" are called by the others, and threads wait in them. A
    # comparison may be a release that the compiler has inlined. Bit 3 is that of a writer
    "absl-mutex": Pairs(
        _absl("5Mutex4LockEv 5Mutex4lockEv 5Mutex10ReaderLockEv 5Mutex11lock_sharedEv "
              "5Mutex8LockWhenERKNS_9ConditionE 5Mutex14ReaderLockWhenERKNS_9ConditionE "
              "5Mutex19LockWhenWithTimeoutERKNS_9ConditionENS_8DurationE "
              "5Mutex20LockWhenWithDeadlineERKNS_9ConditionENS_4TimeE "
              "5Mutex25ReaderLockWhenWithTimeoutERKNS_9ConditionENS_8DurationE "
              "5Mutex26ReaderLockWhenWithDeadlineERKNS_9ConditionENS_4TimeE "
              "5Mutex14LockWhenCommonERKNS_9ConditionENS_24synchronization_internal13KernelTimeoutEb "
              "5Mutex8LockSlowEPKNS_6MuHowSEPKNS_9ConditionEi 5Mutex12LockSlowLoopEPNS_15SynchWaitParamsEi "
              "5Mutex20LockSlowWithDeadlineEPKNS_6MuHowSEPKNS_9ConditionE"
              "NS_24synchronization_internal13KernelTimeoutEi")
        + _absl("5Mutex7TryLockEv 5Mutex8try_lockEv 5Mutex13ReaderTryLockEv 5Mutex15try_lock_sharedEv", "not zero"),
        _absl("5Mutex6UnlockEv 5Mutex6unlockEv 5Mutex12ReaderUnlockEv 5Mutex13unlock_sharedEv"),
        suspends=_absl("5Mutex5AwaitERKNS_9ConditionE 5Mutex16AwaitWithTimeoutERKNS_9ConditionENS_8DurationE "
                       "5Mutex17AwaitWithDeadlineERKNS_9ConditionENS_4TimeE "
                       "5Mutex11AwaitCommonERKNS_9ConditionENS_24synchronization_internal13KernelTimeoutE")
        + _absl("7CondVar4WaitEPNS_5MutexE 7CondVar15WaitWithTimeoutEPNS_5MutexENS_8DurationE "
                "7CondVar16WaitWithDeadlineEPNS_5MutexENS_4TimeE "
                "7CondVar10WaitCommonEPNS_5MutexENS_24synchronization_internal13KernelTimeoutE", argument=1),
        inlined=Inlined(8, frozenset(), frozenset(("compares",))),
        hidden=Inlined(8, frozenset(), frozenset(("compares",)), bit=8),
        versioned=re.compile(r"absl::(\w+)::(?:Mutex|CondVar)::")),
    # Boost 1.74 boost/thread/pthread/shared_mutex.hpp. All of it is in the header, so the compiler may inline a
    # release: each locks and unlocks the pthread mutex that protects the state and comes after it
    "boost-shared-mutex": Pairs(
        _calls("_ZN5boost12shared_mutex4lockEv _ZN5boost12shared_mutex11lock_sharedEv "
               "_ZN5boost12shared_mutex12lock_upgradeEv _ZN5boost12shared_mutex23unlock_upgrade_and_lockEv")
        + _calls("_ZN5boost12shared_mutex8try_lockEv _ZN5boost12shared_mutex15try_lock_sharedEv "
                 "_ZN5boost12shared_mutex16try_lock_upgradeEv", "not zero"),
        (*_calls("_ZN5boost12shared_mutex6unlockEv _ZN5boost12shared_mutex13unlock_sharedEv "
                 "_ZN5boost12shared_mutex14unlock_upgradeEv"), Call("pthread_mutex_unlock", offset=8)),
        inlined=Inlined(8, frozenset(), frozenset())),
    # POSIX.1-2017. sem_wait fails only if a signal handler interrupts it, and most programs ignore its result. Locks
    # that extensions make are semaphores too: CPython 3.8 to 3.14 Python/thread_pthread.h, USE_SEMAPHORES
    "semaphore": Pairs(
        (*_calls("sem_wait"), *_calls("sem_trywait sem_timedwait sem_clockwait", "zero"),
         Call("PyThread_acquire_lock", 0, "not zero", wait_flag=1), *_calls("PyThread_acquire_lock_timed", "not zero")),
        _calls("sem_post PyThread_release_lock"), others_release=True),
    # Itanium C++ ABI 3.3.3: the result is 1 if this thread is to run the initialiser
    "static-guard": Pairs(
        _calls("__cxa_guard_acquire", "not zero"), _calls("__cxa_guard_release __cxa_guard_abort")),
    "once": Pairs(runs=_calls("pthread_once call_once")),
    # GCC 12 libgomp/config/linux/lock.c and critical.c: on Linux, the lock of a named section is in the variable that
    # the argument points to
    "openmp-lock": Pairs(
        _calls("omp_set_lock omp_set_nest_lock GOMP_critical_name_start")
        + _calls("GOMP_critical_start", argument=None) + _calls("omp_test_lock omp_test_nest_lock", "not zero"),
        _calls("omp_unset_lock omp_unset_nest_lock GOMP_critical_name_end")
        + _calls("GOMP_critical_end", argument=None)),
    # Rust 1.62 to 1.95 library/std/src/sys/sync/mutex/futex.rs: 1 is locked, 2 is locked with waiting threads.
    # It is released by an exchange for 0 only
    "rust-mutex": Pairs(inlined=Inlined(4, frozenset((1, 2)), frozenset(("exchanges",))), dropped=True),
    # the same releases, rwlock/futex.rs: the number of readers in 30 bits, all of them set for a writer, and above it
    # what waits
    "rust-rwlock": Pairs(inlined=Inlined(4, frozenset((_WRITER,)), frozenset(("adds", "computes")),
                                         frozenset((1, _WRITER)), frozenset((1, _WRITER))), dropped=True),
    # parking_lot 0.12.1 src/raw_mutex.rs, raw_rwlock.rs: a byte that is 1, and a word that counts readers from bit 4
    # on. A destructor exchanges the value of a lock that nobody waits for, and otherwise calls a function. Bit 2 is
    # that of an upgradable reader, whose release depends on the value
    "parking-lot-mutex": Pairs(inlined=Inlined(1, frozenset(), frozenset(("compares",)), zero_frees=True),
                               dropped=True),
    "parking-lot-rwlock": Pairs(inlined=Inlined(8, frozenset(), frozenset(("compares", "adds")),
                                                subtracted=frozenset((16, 16 | 4)), zero_frees=True), dropped=True),
    # oneTBB 2021.5 to 2023.1 include/oneapi/tbb/mutex.h: both are exchanges
    "tbb-mutex": Pairs(inlined=Inlined(1, frozenset((1,)), frozenset(("exchanges",)), is_bool=True),
                       waits=_calls("_ZN3tbb6detail2r115wait_on_addressEPvRNS0_2d113delegate_baseEm "
                                    "_ZN3tbb6detail2r121notify_by_address_oneEPv")),
    # CPython 3.13 and 3.14 Include/cpython/lock.h: 1 is locked, 3 is locked with waiting threads. Code in C and C++
    # inlines the first attempt, and the release of a mutex that nobody waits for
    "py-mutex": Pairs((Call("PyMutex_Lock", after_attempt=True),), _calls("PyMutex_Unlock"),
                      inlined=Inlined(1, frozenset((1,)), frozenset(("exchanges", "compares", "computes")))),
}
