"""Mutexes of Abseil: names with the inline namespace of the release, and functions that no file exports."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from gdbext.libraries.absl.hidden import HiddenFunctions
from gdbext.locks.hiding import HidingPairs, Proving
from gdbext.locks.seen import SeenLock
from gdbext.model.kinds import LockKind
from gdbext.proofs.flow.atomics import Inlined
from gdbext.proofs.functions import Call, Success, calls
from gdbext.proofs.pairs import Pairs
from gdbext.record import record
from gdbext.threads.threads import Threads

#: A function of Abseil in which threads wait; the group is the inline namespace of the release.
_VERSIONED = re.compile(r"absl::(\w+)::(?:Mutex|CondVar)::")


def _absl(names: str, succeeds: Success = "always", argument: int = 0) -> tuple[Call, ...]:
    return calls(" ".join(f"_ZN4absl{name}" for name in names.split()), succeeds, argument)


@record
class AbslPairs(HidingPairs):
    """Mutexes of Abseil."""

    @property
    def hidden(self) -> Inlined | None:
        """The instructions, also in Abseil's own code, if no file exports the functions. Bit 3 is that of a writer."""
        return Inlined(8, frozenset(), frozenset(("compares",)), bit=8)

    def find_hidden(self, proving: Proving, threads: Threads, waits: Mapping[int, SeenLock]) -> frozenset[int]:
        """The functions that acquire mutexes, as waiting threads show them."""
        return HiddenFunctions(proving).find(threads, waits)

    def namespace(self, functions: Iterable[str]) -> str | None:
        """The inline namespace of the release, such as ``lts_20250814``."""
        found = map(_VERSIONED.match, functions)
        return next((match[1] for match in found if match is not None), None)


PAIRS: Final[Mapping[LockKind, Pairs]] = {
    # Abseil 20180600 to 20260817, absl/synchronization/mutex.h and mutex.cc: a function acquires the mutex even if its
    # time is over or its condition is false. Those with "Slow" are called by the others, and threads wait in them. A
    # comparison may be a release that the compiler has inlined.
    "absl-mutex": AbslPairs(
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
        inlined=Inlined(8, frozenset(), frozenset(("compares",)))),
}
