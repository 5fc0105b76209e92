"""Who may hold a lock that does not say so: what the threads' stacks and registers tell.

Circumstance that singles the holders out makes them holders (`INFERRED`); otherwise they are candidates, on which no
deadlock rests.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from gdbext.elf.dynamic import find_dynamic_symbol
from gdbext.holders.proven import ProvenReaders
from gdbext.inferior.protocol import Module, Target
from gdbext.model import DERIVED, INFERRED, SHARED
from gdbext.model.kinds import THREAD_EXIT, id_of_lock
from gdbext.model.reasons import Reason, because
from gdbext.runtimes.names import public_name
from gdbext.threads.code import Code
from gdbext.threads.mentions import MAX_STACK_SCAN, OUTERMOST, Mentions
from gdbext.threads.sections import Section, Sections
from gdbext.threads.site import Sites
from gdbext.threads.threads import Threads
from gdbext.waits.lock_kinds import MALLOC
from gdbext.waits.seen import ALLOCATES, ARRIVING, INITIALISES, MENTIONS, READERS, RUNS_ONCE, SeenLock, held_by


class HolderFinder:
    """Finds holders by circumstance, in the ways that `lock_kinds` names."""

    def __init__(self, target: Target, code: Code, threads: Threads, sites: Sites, library: Sequence[Module],
                 locks: Iterable[SeenLock], waits: Mapping[int, str]) -> None:
        self._memory = target.memory
        self._code = code
        self._threads = threads
        self._sites = sites
        self._waits = waits
        self._proven = ProvenReaders(target, code, library)
        self._mentions = Mentions(target, code, threads, [
            lock.address for lock in locks if lock.find_holders not in (None, INITIALISES)])
        self._sections = Sections(target.memory, code)
        self._ways: dict[str, Callable[[SeenLock, Collection[int]], SeenLock]] = {
            READERS: self._readers, ARRIVING: self._arriving, RUNS_ONCE: self._running_once,
            INITIALISES: self._initialising, ALLOCATES: self._allocating, MENTIONS: self._mentioning,
        }

    def find(self, view: SeenLock, waiters: Collection[int]) -> SeenLock:
        """A lock with the threads that hold it, or may.

        :param waiters: numbers of the threads that wait for it.
        """
        return self._ways[view.find_holders or MENTIONS](view, waiters)

    def _one_inside(self, view: SeenLock, inside: Collection[int], where: str) -> SeenLock:
        """What threads inside a piece of code that only one can be in tell."""
        numbers = tuple(sorted(inside))
        if len(numbers) == 1 and self._threads.all_available:
            return _inferred(view, numbers, because("only-thread-inside", where=where))
        if not numbers:
            return replace(view, why=because("nobody-inside", where=where))
        return replace(view, candidates=numbers, why=because("maybe-inside", where=where))

    # -- counted or merely mentioned -------------------------------------------------------------------------

    def _mentioning(self, view: SeenLock, waiters: Collection[int]) -> SeenLock:
        return replace(view, candidates=tuple(sorted(self._mentions.threads_with(view.address) - set(waiters))))

    def _readers(self, view: SeenLock, waiters: Collection[int]) -> SeenLock:
        """The threads whose code proves that they read; those that have the lock's address may be the others.

        A thread that waits for the lock may read it as well.
        """
        count = view.count
        mentioning = self._mentions.threads_with(view.address) - set(waiters)
        proven = {seen.number for seen in self._threads
                  if seen.unavailable is None and self._proven.holds(seen, view.address)}
        if len(proven) > count:
            return replace(view, candidates=tuple(sorted(proven | mentioning)),
                           why=because("too-many-readers", count=count, threads=len(proven)))
        candidates = tuple(sorted(mentioning - proven)) if len(proven) < count else ()
        if proven:
            why = because("proven-readers", count=count, threads=len(proven))
            return replace(view, holders=held_by(sorted(proven), DERIVED, why, SHARED), candidates=candidates, why=why)
        return replace(view, candidates=candidates,
                       why=because("readers-not-recorded", count=count, candidates=len(candidates)))

    def _arriving(self, view: SeenLock, waiters: Collection[int]) -> SeenLock:
        """Who has not come to a barrier: all other threads, if they are just as many.

        A thread with the barrier's address on its stack may as well have made it, or use what lies beside it. Who waits
        for one of those at the barrier to end does not come before they have gone on.
        """
        ends = {id_of_lock(THREAD_EXIT, self._threads[number].pthread) for number in waiters}
        others = tuple(seen.number for seen in self._threads if seen.number not in waiters
                       and self._waits.get(seen.number) not in ends)
        if self._threads.all_available and len(others) == view.count:
            return _inferred(view, others, because("as-many-others", missing=view.count))
        mentioning = self._mentions.threads_with(view.address) - set(waiters)
        return replace(view, candidates=tuple(sorted(mentioning)), why=because("maybe-not-arrived", missing=view.count))

    # -- inside a function -----------------------------------------------------------------------------------

    def _running_once(self, view: SeenLock, waiters: Collection[int]) -> SeenLock:
        """Whose stack has the functions in which the others wait as callers of the initialiser."""
        helpers: set[int] = set()
        inside = set()
        start: dict[int, int] = {}  # where the stack of a waiter goes on outside of its own wait
        for number in waiters:
            native = self._threads[number].native(self._code)
            start[number] = self._sites.site(native).caller or 0
            own = self._starts([pc - (i > 0) for i, (pc, _) in enumerate(native[:start[number]])])
            helpers.update(own)
            if len(set(own)) < len(own):  # called again by the initialiser, in a call that the compiler made a jump
                inside.add(number)
        for number in self._mentions.threads_with(view.address):
            native = self._threads[number].native(self._code)
            for i in range(start.get(number, 0) + 1, len(native)):
                pc = native[i][0]
                if (self._sites.in_runtime(pc) and not self._sites.in_runtime(native[i - 1][0])
                        and helpers.intersection(self._starts([pc - 1]))):
                    inside.add(number)
                    break
        return self._one_inside(view, inside, "initialiser")

    def _starts(self, pcs: Iterable[int]) -> list[int]:
        return [found[0] for found in map(self._code.function_range, pcs) if found is not None]

    def _initialising(self, view: SeenLock, waiters: Collection[int]) -> SeenLock:
        """Whose stack is between the acquisition of a guard and its release."""
        # function that acquires, function that releases -> return addresses of the waiters' own calls
        calls: dict[tuple[int, int], set[int]] = {}
        outside: dict[int, int] = {}  # where the stack of a waiter goes on outside of its own wait
        for number in waiters:
            native = self._threads[number].native(self._code)
            depth = self._guard_depth(native)
            acquire = self._starts([native[depth][0] - 1]) if depth is not None else ()
            if depth is None or not acquire:
                continue
            module = self._code.module(native[depth][0])
            release = find_dynamic_symbol(self._memory, module, "__cxa_guard_release") if module else None
            calls.setdefault((acquire[0], release.address if release else 0), set()).add(native[depth + 1][0])
            outside[number] = depth + 2
        sections = [Section(acquire, release, view.address, frozenset(own))
                    for (acquire, release), own in calls.items()]
        inside = {seen.number for seen in self._threads if seen.unavailable is None
                  and any(self._sections.contains(section, seen.native(self._code), outside.get(seen.number, 1))
                          for section in sections)}
        return self._one_inside(view, inside, "static-initialiser")

    def _guard_depth(self, native: Sequence[tuple[int, int]]) -> int | None:
        """Index of the frame of `__cxa_guard_acquire`: it calls `syscall` of the C library."""
        for i in range(1, min(len(native) - 1, 3)):
            if self._code.module(native[i][0]) is not self._code.module(native[0][0]):
                return i
        return None

    def _allocating(self, view: SeenLock, waiters: Collection[int]) -> SeenLock:
        """Who is inside the allocator with the arena; a waiter is, if a signal interrupted it there before."""
        inside = set()
        for seen in self._threads:
            if seen.unavailable is not None:
                continue
            native = seen.native(self._code)
            start = 0
            if seen.number in waiters:
                start = next((i for i, (pc, _) in enumerate(native)
                              if self._code.cpu.is_signal_return(self._memory, pc)), len(native))
            if any(self._allocates(native, i) for i in range(start, len(native))):
                high = min(native[-1][1] + OUTERMOST, native[start][1] + MAX_STACK_SCAN)
                if (self._mentions.search_stack(native[start][1], high, {view.address}) if start else
                        seen.number in self._mentions.threads_with(view.address)):
                    inside.add(seen.number)
        return self._one_inside(view, inside, "allocator")

    def _allocates(self, native: Sequence[tuple[int, int]], index: int) -> bool:
        """Whether a frame is a function of the allocator, or calls one."""
        pc = native[index][0]
        if self._sites.in_runtime(pc):
            function = self._code.symbol(pc, index).function
        elif index and self._sites.in_runtime(native[index - 1][0]):
            target = self._code.cpu.called(self._memory, pc)
            function = self._code.symbol(target).function if target is not None else None
        else:
            return False
        return function is not None and public_name(function) in MALLOC


def _inferred(view: SeenLock, numbers: Collection[int], why: Reason) -> SeenLock:
    return replace(view, holders=held_by(numbers, INFERRED, why), why=why)
