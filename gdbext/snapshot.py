"""One look at a target: all threads, what they hold and wait for, locks, runtimes, deadlocks, problems.

The look is made in the order of what each step needs, cheapest first: registers of all threads, thread
descriptors, futex waits, the Python runtimes and their GILs, native stacks of the waiters, locks, owners, the
wait-for graph. Stacks are merged and named last, and only those that the report shows.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from dataclasses import replace

from gdbext.arch.x86_64.signals import CORE_SIGNALS
from gdbext.cpython.signals import handled_signals
from gdbext.cpython.values import DEFAULT_LIMITS, Limits
from gdbext.errors import GdbextError
from gdbext.glibc.version import find_c_library
from gdbext.holders.owners import NativeLocks
from gdbext.inferior.cache import read_u32
from gdbext.model import (
    DERIVED,
    EXCLUSIVE,
    RECORDED,
    Crash,
    Deadlock,
    Hold,
    Local,
    Lock,
    MixedStack,
    Report,
    TargetInfo,
    Thread,
    Wait,
)
from gdbext.model.reasons import Reason, because, because_of
from gdbext.stacks.mixed import MixedStacks
from gdbext.threads.code import Code
from gdbext.threads.findings import Findings
from gdbext.threads.gone import GoneOwners
from gdbext.threads.interrupted import find_interrupted
from gdbext.threads.python_side import PythonSide, TargetWithTypes
from gdbext.threads.site import Sites
from gdbext.threads.threads import SeenThread, Threads
from gdbext.verdict.tasks import AsyncioTasks, find_tasks
from gdbext.verdict.wait_for import find_deadlocks, find_standstill
from gdbext.waits.blocked import Blocked, BlockedWait
from gdbext.waits.parked import ParkedWaits
from gdbext.waits.python_locks import PythonLocks

#: Signals whose handlers set nothing going: the interpreter's own of SIGINT, those of errors, and two (32 and 33) with
#: which glibc itself tells threads to end or to change their user.
_HARMLESS = frozenset((signal.SIGINT, signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT,
                       signal.SIGTRAP, signal.SIGSYS, 32, 33))


#: How many of the waiters of an object's lock are asked what they call the object.
_MAX_LOOKS = 4
#: How many threads are named in the reason why there is no verdict.
_MAX_NAMED = 8


class Snapshot:
    """A look at a target, which must stay stopped while this lives.

    :raises GdbextError: nothing at all can be told: all threads run, or the architecture is unknown.
    """

    def __init__(self, target: TargetWithTypes) -> None:
        if target.architecture != "x86_64":
            raise GdbextError(f"the target's architecture is {target.architecture}",
                              "only x86-64 is decoded so far")
        self._target = target
        self._findings = Findings()
        for where, what, why in target.problems():
            self._findings.problem(where, what, because("text", text=why))
        self._code = Code(target, self._findings)
        self._library = find_c_library(target.memory, self._code.modules, target.architecture)
        if self._library.layouts is None:
            unknown = because("libraries-unlisted") if self._code.unlisted is not None else self._library.why
            self._findings.problem("C library", "not applicable", because("locks-not-decoded", why=unknown))
        self._threads = Threads(target, self._library.layouts, self._findings)
        for seen in self._threads:
            interrupted = find_interrupted(target, self._code, seen) if seen.unavailable is None else None
            if interrupted is not None:
                self._threads.take_back(target, self._code, seen, interrupted.registers, interrupted.handler)
                self._findings.notes.append(because("died-in-handler", thread=seen.number,
                                                    signal=CORE_SIGNALS[interrupted.signal]))
        gone = GoneOwners(target, self._library.layouts, self._threads)
        self._python = PythonSide(target, self._code, self._threads, gone, self._findings)
        self._sites = sites = Sites(target.memory, self._code, self._library.modules)
        self._parked = ParkedWaits(target.memory, self._code, self._threads, self._python, self._findings)
        self._native_locks = NativeLocks(target, self._code, self._library, self._threads, sites, self._parked, gone,
                                         self._findings)
        self._python_locks = PythonLocks(target.memory, self._threads, self._parked, gone, self._findings)
        self._blocked = Blocked(target, self._code, self._threads, sites)
        self._blocked_on: dict[int, BlockedWait] = {}
        for seen in self._threads:
            seen.wait = (self._python.gil_wait(seen) or self._python_locks.wait(seen)
                         or self._native_locks.wait(seen))
            blocked = self._blocked.look(seen) if seen.wait is None else None
            if blocked is not None:
                self._blocked_on[seen.number] = blocked
                if blocked.lock is not None:
                    evidence = RECORDED if blocked.why is None else DERIVED
                    seen.wait = Wait(blocked.lock.id, EXCLUSIVE, blocked.timed, evidence, blocked.why)
        self._python.find_lone_waiters()
        self._locks = {lock.id: lock for lock in [*self._native_locks.locks(), *self._python_locks.locks(),
                                                  *self._blocked.locks()]}
        self._locks.update((gil.lock, gil.as_lock()) for gil in self._python.gils)
        self._name_objects()
        for lock in self._locks.values():
            for holder in lock.holders:
                self._threads[holder.thread].holds.append(Hold(
                    lock.id, holder.mode, holder.evidence, holder.why, holder.taken_at))
        self._mixed = MixedStacks(self._code, self._python.interpreter_code.__getitem__)
        self._stacks: dict[int, MixedStack] = {}
        #: How much of a variable is told where variables are asked for.
        self.limits = DEFAULT_LIMITS

    def _name_objects(self) -> None:
        """Call the object whose lock threads wait for as their frames do."""
        for lock in list(self._locks.values()):
            if lock.kind == "py-critical-section" and lock.waiters and lock.address in self._parked.objects:
                at, kind = self._parked.objects[lock.address]
                threads = [*(waiter.thread for waiter in lock.waiters[:_MAX_LOOKS]),
                           *(holder.thread for holder in lock.holders)]
                name = self._python_locks.name_of(at, threads)
                if name is not None:
                    self._locks[lock.id] = replace(lock, name=f"{name} ({kind})")

    @property
    def incomplete(self) -> GdbextError | None:
        """What keeps the report from being whole, for a user who must do something about it first."""
        return self._findings.incomplete

    @property
    def unlisted(self) -> str | None:
        """Why libraries, and a Python in them, are not known although the executable is; None if they are."""
        return self._code.unlisted

    def numbers(self) -> list[int]:
        """Numbers of all threads, ascending."""
        return [seen.number for seen in self._threads]

    def gils(self) -> list[Lock]:
        """The distinct GILs of the process."""
        return [self._locks[gil.lock] for gil in self._python.gils]

    def locks(self) -> list[Lock]:
        """All locks that a thread waits for, and the GILs."""
        return list(self._locks.values())

    def lock_at(self, address: int, kind: str | None = None) -> tuple[Lock | None, Reason | None]:
        """The lock at an address, or that has a member there, and what to tell the user about the address.

        :param kind: what the user takes it for, if they said.
        :raises MemoryUnreadable: the address is not readable.
        """
        self._target.memory.read(address, 4)
        sizes = {gil.lock: gil.state.size for gil in self._python.gils}
        for lock in self._locks.values():
            size = sizes.get(lock.id) or self._native_locks.size(lock.kind)
            if lock.address <= address < lock.address + size:
                note = None
                if address != lock.address:
                    note = because("address-inside", address=address, base=lock.address, structure=lock.kind,
                                   member=self._native_locks.member(lock, address))
                return lock, note
        found, note = self._python_locks.at(address) if kind is None else None, None
        if found is None:
            found, note = self._native_locks.at(address, kind)
        if found is not None:
            self._locks[found.id] = found
        return found, note

    def mixed(self, number: int, limits: Limits | None = None) -> MixedStack:
        """The stack of a thread in all languages, with variables where limits for them are given."""
        seen = self._threads[number]
        if seen.unavailable is not None:
            return MixedStack()
        if limits is not None:
            return self._mixed.with_variables(
                seen, self._python.stack(seen), self._target.memory,
                lambda index: [Local(*each) for each in self._target.variables(seen.ref, index)], limits)
        known = self._stacks.get(number)
        if known is None:
            known = self._stacks[number] = self._mixed.stack(seen, self._python.stack(seen))
        return known

    def crash(self, report: Report) -> Crash:
        """Why a thread died.

        :param report: what else is known.
        :raises GdbextError: none was stopped by a signal that ends programs.
        """
        # no other command needs it, and what is loaded with it takes as long as a small look
        from gdbext.crash.reader import CrashReader

        return CrashReader(self._target, self._code, self._threads, self._python, self._sites, self._mixed,
                           self._library.modules).read(report, self.limits)

    def tasks(self) -> AsyncioTasks:
        """Event loops and tasks of asyncio; to be asked for before the report, which tells what could not be read."""
        return find_tasks(self._target.memory, self._python.pythons, self._python.number_of_tstate,
                          self._code.modules, self._findings)

    def report(self, stacks: Callable[[Thread], bool]) -> Report:
        """All that was found out; only threads that `stacks` chooses come with their stacks."""
        threads = [self._thread(seen) for seen in self._threads]
        deadlocks = find_deadlocks(threads, self._locks.values()) or self._standstill(threads)
        involved = {number for deadlock in deadlocks for number in deadlock.involved}
        filled = []
        for thread in threads:
            if thread.number in involved or stacks(thread):
                mixed = self.mixed(thread.number)
                thread = replace(thread, stack=mixed.frames, parts=mixed.parts, unmerged=mixed.unmerged)
                if mixed.unmerged:
                    self._findings.problem(f"thread {thread.number}", "not applicable",
                                           because("not-interleaved", why=mixed.unmerged))
            filled.append(thread)
        target = self._target
        info = TargetInfo(target.kind, target.pid, target.executable, target.architecture, self._library.name)
        return Report(info, self._python.runtimes(), tuple(filled), tuple(self._locks.values()), deadlocks,
                      tuple(self._findings.problems), tuple(self._findings.notes),
                      self._no_verdict() or (None if deadlocks else self._unknown_holders()))

    def _standstill(self, threads: Sequence[Thread]) -> tuple[Deadlock, ...]:
        first = self._threads.first
        wants_alone = bool(first) and self._python_locks.wants_alone(self._threads[first])
        found = find_standstill(threads, self._locks.values(), first, wants_alone)
        if found is None or self._no_verdict() or not self._all_would_sleep_again():
            return ()
        if len(threads) == 1 and wants_alone:
            # typical of a child of fork; a handler of a signal does not release what it has not taken
            candidates = self._locks[found.edges[0].lock].candidates
            return (replace(found, why=because("no-other-thread", owner_unknown=int(not candidates))),)
        return () if self._may_get_signals() else (found,)

    def _all_would_sleep_again(self) -> bool:
        """Whether each thread that was stopped in its sleep would go on sleeping: its word is as it was.

        Threads are stopped one after another, so one may have been woken by another that was stopped only later.
        """
        for seen in self._threads:
            futex = seen.futex
            try:
                if futex is None or read_u32(self._target.memory, futex.address) != futex.expected:
                    return False
            except GdbextError:
                return False
        return True

    def _may_get_signals(self) -> bool:
        """Whether some signal's handler may set a thread going.

        The interpreter's own of SIGINT and those of errors do not. Of a core only the handlers are known that Python
        keeps itself; where it does not, the worst is assumed, but for a Python program whose first thread, which would
        run them, waits in native code: the interpreter runs handlers in its own waits only.
        """
        handled = [handled_signals(self._target.memory, python.runtime, python.objects)
                   for python in self._python.pythons]
        if any(handled):
            return True
        caught = self._target.proc.caught_signals() if self._target.proc is not None else None
        if caught is not None:
            return any(caught >> number - 1 & 1 for number in range(1, signal.NSIG) if number not in _HARMLESS)
        wait = self._threads[self._threads.first].wait if self._python.gils else None
        return wait is None or self._python_locks.knows(wait.lock) and None in handled

    def _no_verdict(self) -> Reason | None:
        if self.incomplete is not None:
            return because_of(self.incomplete)
        if self._code.truncated is not None:
            return because("text", text=self._code.unlisted or self._code.truncated)
        if self._library.layouts is None:
            return self._library.why
        for gil in self._python.gils:
            if gil.waiters and gil.state.state == "held" and gil.holder is None and gil.orphan is None:
                return because("gil-holder-unknown", lock=gil.lock)
        unread = sum(seen.unavailable is not None for seen in self._threads)
        if unread:
            return because("threads-unreadable", count=unread, total=len(self._threads))
        doubts = list(dict.fromkeys(self._findings.doubts))
        if len(doubts) <= 1:
            return doubts[0] if doubts else None
        return because("doubts", doubts=tuple(doubts[:_MAX_NAMED]), more=max(len(doubts) - _MAX_NAMED, 0))

    def _unknown_holders(self) -> Reason | None:
        """Why no deadlock can be ruled out, where compiled code waits for a lock that anybody may hold."""
        numbers = self._python_locks.waits_of_compiled_code(self._locks)
        if not numbers:
            return None
        return because("compiled-code-waits", threads=tuple(numbers[:_MAX_NAMED]),
                       more=max(len(numbers) - _MAX_NAMED, 0))

    def _thread(self, seen: SeenThread) -> Thread:
        status, syscall = "unknown", None
        blocked = self._blocked_on.get(seen.number)
        if seen.unavailable is None:
            # a thread that only repeats its wait for the GIL is blocked also in the moment between two of them
            waits = seen.wait is not None and not seen.spins
            status = "blocked" if waits or (seen.call and seen.call.blocked) else "running"
            if blocked is not None and not blocked.is_known:
                status = "unknown"
            if seen.call is not None and status != "running":
                syscall = seen.call.name or (blocked.syscall if blocked else "futex" if seen.wait is not None else None)
        return Thread(seen.number, seen.ref.lwp, seen.tid, seen.ref.name, seen.python_name,
                      seen.tstate.address if seen.tstate is not None else None, self._python.state(seen), status,
                      syscall, tuple(seen.holds), seen.wait, blocked_on=blocked.text if blocked else None,
                      critical_sections=self._parked.sections(seen.number))
