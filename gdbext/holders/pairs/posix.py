"""Locks of POSIX threads and of C11 threads: the functions of the C library."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gdbext.inferior.protocol import Target
from gdbext.model.kinds import LockKind
from gdbext.proofs.flow.state import Value, entry
from gdbext.proofs.functions import Call, LockFunctions, calls
from gdbext.proofs.linkage import Linkage
from gdbext.proofs.pairs import Pairs
from gdbext.proofs.program import Program
from gdbext.proofs.rules import FrameProof, FrameRules, Sought
from gdbext.proofs.stack import Stack, place_of, recompute
from gdbext.record import record


@record
class RwlockPairs(Pairs):
    """Read-write locks."""

    @property
    def may_acquire(self) -> tuple[Call, ...]:
        """Code that uses either kind of lock, by a flag."""
        return calls("pthread_mutex_lock")


class SemaphoreRules(FrameRules):
    """A semaphore is used as a lock only by a function that releases it too."""

    @property
    def needs_address(self) -> bool:
        """Whether only frames with an address near that of the semaphore are analysed: yes, most files use some."""
        return True

    def counts(self, pc: int, lock: Value, whole: int | None) -> bool:
        """Whether the function also releases the semaphore."""
        return self.analysis.gives_back(pc, lock, whole)


@record
class SemaphorePairs(Pairs):
    """Semaphores that are used as locks."""

    @property
    def others_release(self) -> bool:
        """Any thread may post."""
        return True

    def rules(self, functions: LockFunctions, target: Target, program: Program, linkage: Linkage) -> FrameRules:
        """The rules for the frames of a snapshot."""
        return SemaphoreRules(functions, target, program, linkage)


class OnceRules(FrameRules):
    """The thread holds the lock while the C library's function calls the initialiser."""

    def acquired(self, stack: Stack, index: int, lock: Sought) -> FrameProof | None:
        """A frame of a function that has called another one back, and whose argument is the lock."""
        if not index or self.linkage.is_library(self.program.module(stack.native[index - 1][0])):
            return None
        pc = place_of(stack, index)
        function = self.program.function_range(pc)
        call = self.functions.running.get(function[0]) if function is not None else None
        state = self.analysis.state_at(pc) if call is not None else None
        if call is None or state is None:
            return None
        argument = entry(self.program.cpu.ARGUMENTS[call.argument or 0])
        address = recompute(self.memory, self.program.cpu, argument, state, stack.registers(index))
        return FrameProof(index, call.name) if address == lock.address else None


@record
class OncePairs(Pairs):
    """Initialisers that run once."""

    @property
    def runs(self) -> tuple[Call, ...]:
        """The functions that call the initialiser."""
        return calls("pthread_once call_once")

    def rules(self, functions: LockFunctions, target: Target, program: Program, linkage: Linkage) -> FrameRules:
        """The rules for the frames of a snapshot."""
        return OnceRules(functions, target, program, linkage)


PAIRS: Final[Mapping[LockKind, Pairs]] = {
    # only pthread_rwlock_unlock releases it; std::shared_mutex is compiled into calls of these
    "rwlock": RwlockPairs(
        calls("pthread_rwlock_rdlock pthread_rwlock_wrlock")
        + calls("pthread_rwlock_tryrdlock pthread_rwlock_trywrlock pthread_rwlock_timedrdlock "
                "pthread_rwlock_timedwrlock pthread_rwlock_clockrdlock pthread_rwlock_clockwrlock", "zero"),
        calls("pthread_rwlock_unlock")),
    "spin-lock": Pairs(
        calls("pthread_spin_lock") + calls("pthread_spin_trylock", "zero"), calls("pthread_spin_unlock")),
    # POSIX.1-2017; C11 7.26.4, whose functions return thrd_success, which is 0
    "mutex": Pairs(
        calls("pthread_mutex_lock mtx_lock")
        + calls("pthread_mutex_trylock pthread_mutex_timedlock pthread_mutex_clocklock mtx_trylock mtx_timedlock",
                "zero"),
        calls("pthread_mutex_unlock mtx_unlock"),
        suspends=calls("pthread_cond_wait pthread_cond_timedwait cnd_wait cnd_timedwait pthread_cond_clockwait",
                       argument=1)),
    # POSIX.1-2017. sem_wait fails only if a signal handler interrupts it, and most programs ignore its result. Locks
    # that extensions make are semaphores too: CPython 3.8 to 3.14 Python/thread_pthread.h, USE_SEMAPHORES
    "semaphore": SemaphorePairs(
        (*calls("sem_wait"), *calls("sem_trywait sem_timedwait sem_clockwait", "zero"),
         Call("PyThread_acquire_lock", 0, "not zero", wait_flag=1), *calls("PyThread_acquire_lock_timed", "not zero")),
        calls("sem_post PyThread_release_lock")),
    "once": OncePairs(),
}
