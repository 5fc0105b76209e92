"""Native locks: which one a thread sleeps on, and which threads hold it."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import replace

from gdbext.errors import GdbextError
from gdbext.glibc.futex import FutexWait, decode_futex_wait
from gdbext.glibc.mutex import decode_mutex
from gdbext.glibc.pthread import pthread_of_join
from gdbext.glibc.robust import iter_robust_mutexes
from gdbext.glibc.version import CLibrary
from gdbext.holders.inferred import HolderFinder
from gdbext.inferior.cache import read_u32
from gdbext.inferior.protocol import Target
from gdbext.layout.table import Layouts
from gdbext.model import EXCLUSIVE, INFERRED, RECORDED, SHARED, Holder, Lock, Wait, Waiter
from gdbext.model.kinds import CONDVAR, FUTEX, kind_of
from gdbext.model.reasons import Reason, because, because_of
from gdbext.runtimes.names import public_name
from gdbext.threads.code import Code
from gdbext.threads.findings import Findings
from gdbext.threads.gone import GoneOwners
from gdbext.threads.site import Sites
from gdbext.threads.threads import SeenThread, Threads
from gdbext.waits.lock_kinds import (
    NAMED_KINDS,
    Context,
    View,
    recognise,
    recognise_address,
    unknown,
    view_mutex,
    view_spin_lock,
)
from gdbext.waits.openmp import OpenMP
from gdbext.waits.parked import ParkedWaits

_SPINNING = ("pthread_spin_lock",)


class NativeLocks:
    """The locks of native code: those that threads wait for, and those that threads are known to hold anyway."""

    def __init__(self, target: Target, code: Code, library: CLibrary, threads: Threads, sites: Sites,
                 parked: ParkedWaits, gone: GoneOwners, findings: Findings) -> None:
        self._target = target
        self._memory = target.memory
        self._code = code
        self._library = library
        self._threads = threads
        self._sites = sites
        self._parked = parked
        self._gone = gone
        self._finder = HolderFinder(target, code, threads, sites, library.modules)
        if library.layouts is not None:
            self._find_restarted_waits(library.layouts)
        sleepers: dict[int, int] = {}
        for seen in threads:
            if seen.futex is not None:
                sleepers[seen.futex.address] = sleepers.get(seen.futex.address, 0) + 1
        self._context = None
        self._views: dict[str, View] = {view.id: view for view in parked.held()}
        # what many threads share is worked out once
        self._view_of_wait: dict[tuple[object, ...], View] = {}
        if library.layouts is not None:
            self._openmp = OpenMP(target, code, threads)
            self._context = Context(self._memory, library.layouts, sleepers, threads.number_of_pthread, code.modules,
                                    threads.number_of_tid)
            self._read_robust_lists(self._context, findings)

    def _find_restarted_waits(self, layouts: Layouts) -> None:
        """Timed futex waits that a stop has interrupted before, where the arguments alone do not tell that they are."""
        for seen in self._threads:
            if seen.futex is None and seen.call is not None and seen.call.blocked and seen.call.name is None:
                wait = decode_futex_wait(seen.call, surely=True)
                if wait is not None and (
                        pthread_of_join(layouts, wait.address, self._threads.number_of_pthread) is not None
                        or "syscall" in self._sites.site(seen.native(self._code)).functions
                        and self._is_asleep(wait, seen.call.arguments[3])):
                    seen.futex = wait

    def _is_asleep(self, wait: FutexWait, timeout: int) -> bool:
        """Whether the arguments of some restarted call are those of a futex wait: the word is as it was expected."""
        try:
            seconds, nanoseconds = struct.unpack("<qq", self._memory.read(timeout, 16))  # struct timespec
            return (read_u32(self._memory, wait.address) == wait.expected
                    and bool(seconds >= 0 and 0 <= nanoseconds < 10**9))
        except GdbextError:
            return False

    def _read_robust_lists(self, context: Context, findings: Findings) -> None:
        """Robust mutexes are on a list of the thread that holds them, whether anybody waits or not."""
        for seen in self._threads:
            if not seen.pthread:
                continue
            try:
                for address in iter_robust_mutexes(self._memory, context.layouts, seen.pthread):
                    state = decode_mutex(self._memory, context.layouts, address)
                    if state.plausible and state.locked:
                        view = view_mutex(state)
                        self._views[view.id] = view
            except GdbextError as error:
                findings.problem(f"thread {seen.number}", "unreadable", because_of(error, "robust-list"))

    def wait(self, seen: SeenThread) -> Wait | None:
        """What a thread waits for: it sleeps on a futex word or spins; None if it does neither."""
        parked = self._parked.view(seen)
        if parked is not None:
            self._views.setdefault(parked.id, parked)
            return Wait(parked.id, parked.mode, not parked.repeats and seen.futex is not None and seen.futex.timed)
        if seen.futex is None:
            return self._spinning_wait(seen)
        if self._parked.is_over(seen):
            return None
        futex = seen.futex
        site = self._sites.site(seen.native(self._code))
        key = (futex, site)
        view = self._view_of_wait.get(key)
        if view is None:
            if self._context is None:
                view = unknown(futex, site)
            else:
                view = self._view_openmp(seen, futex) or recognise(self._context, futex, site)
                worker = self._openmp.of_condvar(seen) if view.kind == CONDVAR else None
                if worker is not None and view.why is not None:
                    view = replace(view, why=because("several", reasons=(worker, view.why)))
            self._view_of_wait[key] = view
        self._views.setdefault(view.id, view)
        # a lock that does not record its owner does not record either that nobody is left
        evidence = INFERRED if view.orphan and not kind_of(view.kind).records_owner else RECORDED
        return Wait(view.id, view.mode, futex.timed, evidence, view.why if evidence == INFERRED else None)

    def _view_openmp(self, seen: SeenThread, futex: FutexWait) -> View | None:
        """A wait inside libgomp, which makes its futex calls itself."""
        found = self._openmp.view(seen, futex)
        if found is None:
            return None
        return View(found.kind, found.address, found.state, holders=found.holders, candidates=found.candidates,
                    why=found.why, orphan=found.orphan)

    def _spinning_wait(self, seen: SeenThread) -> Wait | None:
        if seen.unavailable is not None or seen.call is not None or not self._in_library(seen.registers["rip"]):
            return None
        function = self._code.symbol(seen.registers["rip"]).function
        if function is None or public_name(function) not in _SPINNING:
            return None
        view = view_spin_lock(seen.registers.get("rdi", 0))
        self._views.setdefault(view.id, view)
        seen.spins = True
        return Wait(view.id, view.mode, False)

    def _in_library(self, pc: int) -> bool:
        module = self._code.module(pc)
        return module is not None and any(module is part for part in self._library.modules)

    def locks(self) -> list[Lock]:
        """Every lock that a thread waits for or is recorded to hold, with holders and waiters."""
        waiters: dict[str, list[Waiter]] = {}
        for seen in self._threads:
            if seen.wait is not None:
                waiters.setdefault(seen.wait.lock, []).append(Waiter(seen.number, seen.wait.mode))
        self._join_words(waiters)
        self._finder.announce(self._views.values())
        return [self._lock(view, waiters.get(lock_id, ())) for lock_id, view in self._views.items()]

    def _join_words(self, waiters: dict[str, list[Waiter]]) -> None:
        """One word is one lock: what the stack of one waiter tells of it holds for the others too."""
        told = {view.address: view.id for view in self._views.values() if view.kind in NAMED_KINDS}
        for view in [view for view in self._views.values() if view.kind == FUTEX and view.address in told]:
            del self._views[view.id]
            for waiter in waiters.pop(view.id, ()):
                wait = self._threads[waiter.thread].wait
                assert wait is not None
                self._threads[waiter.thread].wait = replace(wait, lock=told[view.address])
                waiters.setdefault(told[view.address], []).append(waiter)

    def at(self, address: int, kind: str | None) -> tuple[Lock | None, Reason | None]:
        """The lock at an address on which no thread waits, and what to tell the user about the address."""
        if self._context is None:
            return None, None
        view, note = recognise_address(self._context, address, kind)
        return (self._lock(view, ()) if view is not None else None), note

    def size(self, kind: str) -> int:
        """Size of a lock of a kind, in bytes."""
        structure = kind_of(kind).structure
        return 8 if self._library.layouts is None or structure is None else self._library.layouts[structure].size

    def member(self, lock: Lock, address: int) -> str | None:
        """The member of a lock that begins at an address."""
        structure = kind_of(lock.kind).structure
        if self._library.layouts is not None and structure is not None:
            for name, member in self._library.layouts[structure].fields.items():
                if lock.address + member.offset == address:
                    return name
        return None

    # -- who holds it ----------------------------------------------------------------------------------------

    def _lock(self, view: View, waiters: Sequence[Waiter]) -> Lock:
        holders: tuple[Holder, ...] = ()
        candidates: tuple[int, ...] = ()
        foreign_owner: int | None = None
        orphan, evidence, why = view.orphan, RECORDED, view.why
        if view.owner_thread is not None or view.owner_threads:
            told = None if view.owner_evidence == RECORDED else view.why
            owners = view.owner_threads if view.owner_thread is None else (view.owner_thread,)
            holders = tuple(Holder(number, EXCLUSIVE, view.owner_evidence, told) for number in owners)
        elif view.owner is not None:
            number = self._threads.number_of_tid.get(view.owner)
            if number is not None:
                holders = (Holder(number, EXCLUSIVE, RECORDED),)
            elif view.elsewhere and not self._is_private(view.address):
                foreign_owner = view.owner
                why = because("foreign-owner", tid=view.owner)
            else:
                orphan, evidence, why = self._gone.by_tid(view.owner)
                if (orphan is not None and view.owner < self._threads.process_tid and not self._first_waits(waiters)
                        and self._may_be_first(view.owner)):
                    orphan, candidates = None, (self._threads.first,)
                    why = because("owner-called-fork", tid=view.owner)
        elif view.owner_descriptor is not None:
            orphan, evidence, why = self._gone.by_descriptor(view.owner_descriptor)
        else:
            found = self._finder.find(view, {waiter.thread for waiter in waiters})
            holders = found.as_holders(SHARED if kind_of(view.kind).has_readers else EXCLUSIVE)
            candidates, why = found.candidates, found.why
        return Lock(view.id, view.kind, view.address, self._name(view, waiters), view.state, holders, tuple(waiters),
                    candidates, orphan, view.wait_for, evidence, why, view.elsewhere, foreign_owner)

    def _first_waits(self, waiters: Sequence[Waiter]) -> bool:
        """Whether the first thread waits itself, or is the only one."""
        return len(self._threads) == 1 or any(waiter.thread == self._threads.first for waiter in waiters)

    def _may_be_first(self, owner: int) -> bool:
        """Whether an owner that fork has left behind may be the thread that called fork.

        That one lives on here as the first thread, under another number, and may unlock what it has locked. Its old
        number is known only where it was the first thread of its process too, and that process is still the parent.
        """
        if self._target.proc is None or self._gone.first_was_started() is not False:
            return True
        first, others = self._target.proc.parent_threads()
        return owner == first or owner not in others

    def _is_private(self, address: int) -> bool:
        """Whether nobody but this process can have a lock, as far as /proc tells."""
        return self._target.proc is not None and self._target.proc.is_private(address)

    def _name(self, view: View, waiters: Sequence[Waiter]) -> str | None:
        """The variable that a lock is, or the library that uses it."""
        if view.name is not None:
            return view.name
        module = self._code.module(view.address)
        if module is not None:
            symbol = self._code.symbol(view.address).function
            if symbol is None and view.kind == FUTEX and self._in_library(view.address):
                # a lock of the C library's own: the function that takes it tells what it is for
                functions = self._sites.site(self._threads[waiters[0].thread].native(self._code)).functions
                symbol = f"{functions[-1]}()" if functions else None
            return f"{symbol} in {module.name}" if symbol else f"in {module.name}"
        if kind_of(view.kind).ends_thread:
            return None
        for waiter in waiters:
            native = self._threads[waiter.thread].native(self._code)
            caller = self._sites.site(native).caller
            module = self._code.module(native[caller][0]) if caller is not None else None
            if module is not None:
                return f"in {module.name}"
        return None
