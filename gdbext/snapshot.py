"""One look at a target: all threads, what they hold and wait for, locks, runtimes, deadlocks, problems.

The look is made in the order of what each step needs, cheapest first: registers of all threads, thread
descriptors, futex waits, the Python runtimes and their GILs, native stacks of the waiters, locks, owners, the
wait-for graph. Stacks are merged and named last, and only those that the report shows.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from gdbext.cpython.signals import handled_signals
from gdbext.cpython.values import DEFAULT_LIMITS, Limits
from gdbext.errors import GdbextError
from gdbext.glibc.version import find_c_library
from gdbext.holders.locks import FoundLocks, find_locks
from gdbext.inferior.cache import read_u32
from gdbext.model import (
    Crash,
    Deadlock,
    Local,
    Lock,
    MixedStack,
    Report,
    TargetInfo,
    Thread,
    ThreadStatus,
    Wait,
)
from gdbext.model.kinds import kind_of
from gdbext.model.reasons import Reason, because, because_of
from gdbext.stacks.mixed import MixedStacks
from gdbext.threads.code import read_code
from gdbext.threads.findings import Findings
from gdbext.threads.gone import GoneOwners
from gdbext.threads.interrupted import take_back
from gdbext.threads.python_side import TargetWithTypes, read_python_side
from gdbext.threads.restarted import find_restarted_waits
from gdbext.threads.site import Sites
from gdbext.threads.threads import SeenThread, read_threads
from gdbext.verdict.tasks import AsyncioTasks, find_tasks
from gdbext.verdict.wait_for import find_deadlocks, find_standstill
from gdbext.waits.context import Context, read_context
from gdbext.waits.lock_kinds import member_of_lock, recognise_address, size_of_lock
from gdbext.waits.recognisers import find_waits
from gdbext.waits.seen import BlockedWait

#: Signals whose handlers set nothing going: the interpreter's own of SIGINT, those of errors, and two (32 and 33) with
#: which glibc itself tells threads to end or to change their user.
_HARMLESS = frozenset((signal.SIGINT, signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT,
                       signal.SIGTRAP, signal.SIGSYS, 32, 33))


#: How many threads are named in the reason why there is no verdict.
_MAX_NAMED = 8


def take_snapshot(target: TargetWithTypes) -> Snapshot:
    """Read the threads, what each waits for, and which threads hold that.

    :raises GdbextError: nothing at all can be told: all threads run, or the architecture is unknown.
    """
    if target.architecture != "x86_64":
        raise GdbextError(f"the target's architecture is {target.architecture}",
                          "only x86-64 is decoded so far")
    memory, findings = target.memory, Findings()
    for where, what, why in target.problems():
        findings.problem(where, what, because("text", text=why))
    code = read_code(target, findings)
    library = find_c_library(memory, code.modules, target.architecture)
    if library.layouts is None:
        unknown = because("libraries-unlisted") if code.unlisted is not None else library.why
        findings.problem("C library", "not applicable", because("locks-not-decoded", why=unknown))
    sites = Sites(memory, code, library.modules)
    threads = take_back(target, code, read_threads(target, library.layouts, findings), findings)
    if library.layouts is not None:
        threads = find_restarted_waits(memory, library.layouts, code, threads, sites)
    gone = GoneOwners(target, library.layouts, threads)
    python = read_python_side(target, code, threads, gone, findings)
    context = read_context(target, code, library, threads, sites, python, findings)
    waits = find_waits(context)
    return Snapshot(context, waits, find_locks(context, waits, gone))


class Snapshot:
    """What was found in a target, which must stay stopped while this lives; stacks are read when asked for."""

    def __init__(self, context: Context, waits: Mapping[int, BlockedWait], locks: FoundLocks) -> None:
        self._context = context
        self._target = context.target
        self._findings = context.findings
        self._code = context.code
        self._library = context.library
        self._threads = context.threads
        self._python = context.python
        self._waits = waits
        self._found = locks
        self._locks = dict(locks.locks)
        self._mixed = MixedStacks(self._code, self._python.interpreter_code.__getitem__)
        self._stacks: dict[int, MixedStack] = {}
        #: How much of a variable is told where variables are asked for.
        self.limits = DEFAULT_LIMITS

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
        layouts = self._library.layouts
        for lock in self._locks.values():
            size = sizes.get(lock.id) or size_of_lock(layouts, lock.kind)
            if lock.address <= address < lock.address + size:
                note = None
                if address != lock.address:
                    note = because("address-inside", address=address, base=lock.address, structure=lock.kind,
                                   member=member_of_lock(layouts, lock, address))
                return lock, note
        view, note = self._context.python_locks.at(address) if kind is None else None, None
        if view is None and self._context.words is not None:
            view, note = recognise_address(self._context.words, address, kind)
        if view is None:
            return None, note
        found = self._locks[view.id] = self._found.find_more(view)
        return found, note

    def mixed(self, number: int, limits: Limits | None = None) -> MixedStack:
        """The stack of a thread in all languages, with variables where limits for them are given."""
        seen = self._threads[number]
        if seen.unavailable is not None:
            return MixedStack()
        if limits is not None:
            return self._mixed.with_variables(
                seen, self._python.thread(number), self._python.stack(seen), self._target.memory,
                lambda index: [Local(*each) for each in self._target.variables(seen.ref, index)], limits)
        known = self._stacks.get(number)
        if known is None:
            known = self._stacks[number] = self._mixed.stack(
                seen, self._python.thread(number), self._python.stack(seen))
        return known

    def crash(self, report: Report) -> Crash:
        """Why a thread died.

        :param report: what else is known.
        :raises GdbextError: none was stopped by a signal that ends programs.
        """
        # no other command needs it, and what is loaded with it takes as long as a small look
        from gdbext.crash.reader import CrashReader

        return CrashReader(self._target, self._code, self._threads, self._python, self._context.sites, self._mixed,
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
        waiters = {gil.lock: [waiter.thread for waiter in self._locks[gil.lock].waiters] for gil in self._python.gils}
        return Report(info, self._python.runtimes(waiters), tuple(filled), tuple(self._locks.values()), deadlocks,
                      tuple(self._findings.problems), tuple(self._findings.notes),
                      self._no_verdict() or (None if deadlocks else self._unknown_holders()))

    def _standstill(self, threads: Sequence[Thread]) -> tuple[Deadlock, ...]:
        first = self._threads.first
        wants_alone = bool(first) and self._waits_in_python(first) and self._context.python_locks.wants_alone(
            self._threads[first])
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
        if not self._python.gils or not self._waits_for_lock(self._threads.first):
            return True
        return self._waits_in_python(self._threads.first) and None in handled

    def _waits_for_lock(self, number: int) -> bool:
        wait = self._waits.get(number)
        return wait is not None and wait.lock is not None

    def _waits_in_python(self, number: int) -> bool:
        """Whether a thread waits for one of Python's own locks."""
        wait = self._waits.get(number)
        return wait is not None and wait.lock is not None and wait.lock.python is not None

    def _no_verdict(self) -> Reason | None:
        if self.incomplete is not None:
            return because_of(self.incomplete)
        if self._code.truncated is not None:
            return because("text", text=self._code.unlisted or self._code.truncated)
        if self._library.layouts is None:
            return self._library.why
        for gil in self.gils():
            if gil.waiters and gil.state == "held" and not gil.holders and gil.orphan is None:
                return because("gil-holder-unknown", lock=gil.id)
        unread = sum(seen.unavailable is not None for seen in self._threads)
        if unread:
            return because("threads-unreadable", count=unread, total=len(self._threads))
        doubts = list(dict.fromkeys(self._findings.doubts))
        if len(doubts) <= 1:
            return doubts[0] if doubts else None
        return because("doubts", doubts=tuple(doubts[:_MAX_NAMED]), more=max(len(doubts) - _MAX_NAMED, 0))

    def _unknown_holders(self) -> Reason | None:
        """Why no deadlock can be ruled out, where compiled code waits for a lock that anybody may hold."""
        numbers = [number for number, wait in self._waits.items() if not wait.timed and wait.lock is not None
                   and self._waits_in_python(number) and _has_unknown_holder(self._locks[wait.lock.id])
                   and not self._context.python_locks.is_called_from_python(self._threads[number])]
        if not numbers:
            return None
        return because("compiled-code-waits", threads=tuple(numbers[:_MAX_NAMED]),
                       more=max(len(numbers) - _MAX_NAMED, 0))

    def _thread(self, seen: SeenThread) -> Thread:
        status: ThreadStatus = "unknown"
        syscall = None
        wait, python = self._waits.get(seen.number), self._python.thread(seen.number)
        lock = wait.lock if wait is not None else None
        if seen.unavailable is None:
            # a thread that only repeats its wait for the GIL is blocked also in the moment between two of them
            waits = lock is not None and not kind_of(lock.kind).spins
            status = "blocked" if waits or (seen.call and seen.call.blocked) else "running"
            if wait is not None and not wait.is_known:
                status = "unknown"
            if seen.call is not None and status != "running":
                syscall = seen.call.name or (wait.syscall if wait is not None and wait.text is not None else
                                             "futex" if lock is not None else None)
        return Thread(seen.number, seen.ref.lwp, seen.tid, seen.ref.name, python.name,
                      python.tstate.address if python.tstate is not None else None, self._python.state(seen), status,
                      syscall, tuple(self._found.holds.get(seen.number, ())),
                      Wait(lock.id, wait.mode, wait.timed, wait.evidence, wait.why) if wait and lock else None,
                      blocked_on=wait.text if wait is not None else None,
                      critical_sections=self._context.parked.sections(seen.number))


def _has_unknown_holder(lock: Lock) -> bool:
    return (lock.state == "locked" and not kind_of(lock.kind).records_owner
            and not lock.holders and not lock.orphan)
