"""The table of functions that acquire and release locks whose owner is not recorded, by exported name and lock kind.

`holders/proven.py` looks for calls of these functions in the machine code of every frame. A new lock kind needs a row
here and no other code. Names are those of dynamic symbols, so C++ names are mangled.
"""

from __future__ import annotations

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
    With `after_attempt`, code calls it only if an atomic instruction has not acquired the lock.
    """

    name: str
    argument: int | None = 0
    succeeds: Success = "always"
    after_attempt: bool = False


@record
class Inlined:
    """Atomic instructions by which compiled code acquires and releases a lock, in place of a call.

    The lock's word has `size` bytes and is 0 while the lock is free. An exchange of 0 for one of `acquired` acquires
    it, and so does a comparison that succeeds and stores the compared value plus one of `added`, or with all bits of
    one of them set. Any other exchange of one of the kinds in `releases` may release it, but an addition of a constant
    only if that is one of `subtracted`. A word that `is_bool` is 0 or 1.
    """

    size: int
    acquired: frozenset[int]
    releases: frozenset[ExchangeKind]
    added: frozenset[int] = frozenset()
    subtracted: frozenset[int] = frozenset()
    is_bool: bool = False

    def may_be(self, exchange: Exchange) -> bool:
        """Whether an instruction may acquire or release a lock."""
        return exchange.size == self.size and (exchange.kind in ("exchanges", "compares")
                                               or exchange.kind in self.releases)


@record
class Pairs:
    """The functions for the locks of one kind, all of which have exported names.

    `acquires` and `releases` are called for the lock. While a function of `runs` calls another one back, the thread
    holds the lock. While a thread is inside a function of `suspends`, it does not hold the lock. Functions of
    `may_acquire` are for another kind, and most files call them; code may call one of them in place of one of
    `acquires`, by a flag. `inlined` are the instructions in code of the program, but not in the interpreter. The file
    that exports the functions of `waits` calls code of the program, which may release any lock. Only the functions of
    `waits` do not: they wait for a lock, or wake a thread that does.
    """

    acquires: tuple[Call, ...] = ()
    releases: tuple[Call, ...] = ()
    may_acquire: tuple[Call, ...] = ()
    runs: tuple[Call, ...] = ()
    suspends: tuple[Call, ...] = ()
    inlined: Inlined | None = None
    waits: tuple[Call, ...] = ()


def _calls(names: str, succeeds: Success = "always", argument: int | None = 0) -> tuple[Call, ...]:
    return tuple([Call(name, argument, succeeds) for name in names.split()])


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
    "rust-mutex": Pairs(inlined=Inlined(4, frozenset((1, 2)), frozenset(("exchanges",)))),
    # the same releases, rwlock/futex.rs: the number of readers in 30 bits, all of them set for a writer, and above it
    # what waits
    "rust-rwlock": Pairs(inlined=Inlined(4, frozenset((_WRITER,)), frozenset(("adds", "computes")),
                                         frozenset((1, _WRITER)), frozenset((1, _WRITER)))),
    # oneTBB 2021.5 to 2023.1 include/oneapi/tbb/mutex.h: both are exchanges
    "tbb-mutex": Pairs(inlined=Inlined(1, frozenset((1,)), frozenset(("exchanges",)), is_bool=True),
                       waits=_calls("_ZN3tbb6detail2r115wait_on_addressEPvRNS0_2d113delegate_baseEm "
                                    "_ZN3tbb6detail2r121notify_by_address_oneEPv")),
    # CPython 3.13 and 3.14 Include/cpython/lock.h: 1 is locked, 3 is locked with waiting threads. Code in C and C++
    # inlines the first attempt, and the release of a mutex that nobody waits for
    "py-mutex": Pairs((Call("PyMutex_Lock", after_attempt=True),), _calls("PyMutex_Unlock"),
                      inlined=Inlined(1, frozenset((1,)), frozenset(("exchanges", "compares", "computes")))),
}
