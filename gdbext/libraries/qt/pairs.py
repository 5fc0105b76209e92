"""Locks of Qt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gdbext.model.kinds import LockKind
from gdbext.proofs.flow.atomics import Inlined
from gdbext.proofs.functions import Call, calls
from gdbext.proofs.pairs import Pairs

PAIRS: Final[Mapping[LockKind, Pairs]] = {
    # Qt 5.15 and 6.4 src/corelib/thread/qreadwritelock.h. Programs compiled with Qt 6.6 or later ignore
    # the result of a call without timeout; with 6.11 or later they call a function only for a contended lock
    "qt-rwlock": Pairs(
        calls("_ZN14QReadWriteLock11lockForReadEv _ZN14QReadWriteLock12lockForWriteEv")
        + calls("_ZN14QReadWriteLock14tryLockForReadEv _ZN14QReadWriteLock15tryLockForWriteEv "
                "_ZN14QReadWriteLock14tryLockForReadEi _ZN14QReadWriteLock15tryLockForWriteEi "
                "_ZN14QReadWriteLock14tryLockForReadE14QDeadlineTimer "
                "_ZN14QReadWriteLock15tryLockForWriteE14QDeadlineTimer", "not zero"),
        calls("_ZN14QReadWriteLock6unlockEv _ZN19QBasicReadWriteLock15contendedUnlockEPv"),
        suspends=calls("_ZN14QWaitCondition4waitEP14QReadWriteLockm "
                       "_ZN14QWaitCondition4waitEP14QReadWriteLock14QDeadlineTimer", argument=1)),
    # Qt 5.15, 6.4 and the development branch, src/corelib/thread/qmutex.h: 1 is locked, 3 is locked with waiting
    # threads, which only `lockInternal` stores. QtCore itself inlines the first attempt too
    "qt-mutex": Pairs(
        (*calls("_ZN6QMutex4lockEv"), Call("_ZN11QBasicMutex12lockInternalEv", after_attempt=True))
        + calls("_ZN6QMutex7tryLockEi", "not zero")
        + tuple([Call(name, 0, "not zero", after_attempt=True) for name in (
            "_ZN11QBasicMutex12lockInternalEi", "_ZN11QBasicMutex12lockInternalE14QDeadlineTimer")]),
        calls("_ZN6QMutex6unlockEv _ZN11QBasicMutex14unlockInternalEv "
              "_ZN11QBasicMutex19unlockInternalFutexEPv"),
        suspends=calls("_ZN14QWaitCondition4waitEP6QMutexm _ZN14QWaitCondition4waitEP6QMutex14QDeadlineTimer",
                       argument=1),
        inlined=Inlined(8, frozenset((1,)), frozenset(("exchanges", "compares")))),
}
