"""Finds the holders of locks without a recorded owner, from the stacks and registers of the threads.

If these identify the holders the evidence is `INFERRED`. Otherwise the threads are candidates, which are never part of
a deadlock.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from gdbext.cpython.locking.locks import PyLock
from gdbext.elf.dynamic import find_dynamic_symbol
from gdbext.holders.pairs import KINDS, pairs_of
from gdbext.inferior.protocol import Module, Target
from gdbext.locks.library_parts import FunctionCall
from gdbext.locks.seen import (
    ALLOCATES,
    ARRIVING,
    INITIALISES,
    MENTIONS,
    READERS,
    RUNS_ONCE,
    Known,
    NotRecorded,
    SeenLock,
    held_by,
    inferred,
    may_be_held_by,
    one_inside,
)
from gdbext.model import DERIVED, SHARED, Holder
from gdbext.model.kinds import FAST_RLOCK, FUTEX, THREAD_EXIT, id_of_lock, kind_of
from gdbext.model.reasons import Reason, because, joined, parts
from gdbext.proofs.known_code import KnownCode
from gdbext.runtimes.names import public_name
from gdbext.threads.code import Code
from gdbext.threads.mentions import MAX_STACK_SCAN, OUTERMOST, Mentions
from gdbext.threads.sections import Section, Sections
from gdbext.threads.site import Sites, before_signal
from gdbext.threads.threads import SeenThread, Threads
from gdbext.waits.lock_kinds import MALLOC

if TYPE_CHECKING:
    from gdbext.holders.proven import Proof, ProvenHolders

#: Most functions that are named in which candidates have acquired a lock.
_MAX_TAKERS = 4


class HolderFinder:
    """Finds holders in the way that a lock needs which does not record them."""

    def __init__(self, target: Target, code: Code, threads: Threads, sites: Sites, library: Sequence[Module],
                 locks: Iterable[SeenLock], waits: Mapping[int, SeenLock], known_code: KnownCode) -> None:
        self._memory = target.memory
        self._target = target
        self._library = library
        self._code = code
        self._threads = threads
        self._sites = sites
        self._waits = waits
        self._known_code = known_code
        self._mentions = Mentions(target, code, threads, [
            lock.address for lock in locks
            if isinstance(lock.held, NotRecorded) and lock.held.way not in (None, INITIALISES)])
        self._sections = Sections(target.memory, code)
        self._ways: dict[str, Callable[[SeenLock, Collection[int]], SeenLock]] = {
            READERS: self._readers, ARRIVING: self._arriving, RUNS_ONCE: self._running_once,
            INITIALISES: self._initialising, ALLOCATES: self._allocating, MENTIONS: self._mentioning,
        }

    @cached_property
    def _proven(self) -> ProvenHolders:
        # most locks record their owner, and these modules take as long to load as a small snapshot
        from gdbext.holders.proven import ProvenHolders

        return ProvenHolders(self._target, self._code, self._library, self._known_code)

    def find(self, lock: SeenLock, waiters: Collection[int]) -> SeenLock | None:
        """The lock with its holders or candidates; None if there is no way to find them.

        :param waiters: numbers of the threads that wait for it.
        """
        way = lock.held.way if isinstance(lock.held, NotRecorded) else None
        return self._ways[way](lock, waiters) if way is not None else None

    def prove(self, lock: SeenLock, waiters: Collection[int]) -> SeenLock | None:
        """The lock with the thread whose machine code proves that it holds it; None if there is no such thread.

        If the code of several threads seems to prove it, they are candidates, since only one can hold the lock. So is
        each thread that has acquired a lock which any thread may release.
        """
        proofs = self._proofs(lock, waiters)
        if proofs and pairs_of(lock.kind).others_release:
            return replace(lock, held=may_be_held_by(proofs), why=joined([*parts(lock.why), *_takers(proofs)]))
        if len(proofs) > 1:
            return replace(lock, held=may_be_held_by(proofs),
                           why=because("several-proven", threads=len(proofs)))
        return next((replace(lock, held=held_by((number,), DERIVED, why), why=why)
                     for number, proof in proofs.items() for why in [_proven(proof)]), None)

    def call_of(self, seen: SeenThread, index: int) -> FunctionCall | None:
        """The call of a caller's function, see `ProvenHolders.call_of`."""
        return self._proven.call_of(seen, index)

    def _proofs(self, lock: SeenLock, waiters: Collection[int]) -> dict[int, Proof]:
        """The threads whose machine code proves that they hold a lock."""
        if lock.kind not in KINDS:
            return {}
        from gdbext.proofs.rules import Sought

        is_shared = bool(lock.readers)
        only = self._only_lock(lock, waiters)
        namespaces = (self._proven.namespace_of(lock.kind, self._threads[number].native(self._code))
                      for number in waiters)
        namespace = next(filter(None, namespaces), None)
        hidden = self._proven.hidden_functions(lock.kind, namespace, self._threads, self._waits)
        found = {seen.number: self._proven.find(
            seen, lock.kind, Sought(lock.address, only, None if self._may_have_given_back(seen.number, lock)
                                    else is_shared), namespace, hidden)
            for seen in self._threads if seen.unavailable is None}
        return {number: proof for number, proof in found.items() if proof is not None}

    def _may_have_given_back(self, number: int, lock: SeenLock) -> bool:
        """Whether a thread may have released a lock for a while, although its guard still exists.

        That is so while it waits for a condition variable, shortly before, and until it has acquired the lock again.
        """
        waits_for = self._waits.get(number)
        # a job of a pool and others are condition variables, too
        return (waits_for is None or waits_for.kind == FUTEX or waits_for.id == lock.id
                or kind_of(waits_for.kind).is_event)

    def _only_lock(self, lock: SeenLock, waiters: Collection[int]) -> str | None:
        """The library whose only lock, which no argument points to, the waiting threads have requested."""
        found: set[str | None] = set()
        for number in waiters:
            native = self._threads[number].native(self._code)
            caller = self._sites.site(native).caller
            found.add(self._proven.only_lock(lock.kind, native[caller][0]) if caller is not None else None)
        return found.pop() if len(found) == 1 else None

    def is_in_code_of(self, number: int, lock: PyLock) -> bool:
        """Whether a thread is in compiled code that has a lock object, of a kind that such code takes.

        It has a frame in the extension that defines the object's type, and that object on its stack.
        """
        if lock.kind != FAST_RLOCK:
            return False
        # the name of a type is MODULE.TYPE, that of the module's file is MODULE.TAG.so
        file = lock.type_name.rpartition(".")[0].rpartition(".")[2] + "."
        modules = (self._code.module(pc) for pc, _ in self._threads[number].native(self._code))
        return (any(module is not None and module.name.startswith(file) for module in modules)
                and number in self._mentions.threads_with(lock.address))

    def waiting_for(self, ids: Collection[str]) -> Collection[int]:
        """The threads that wait for locks with some ids."""
        return [number for number, lock in self._waits.items() if lock.id in ids]

    # -- counted, or with the address on the stack ------------------------------------------------------------

    def _mentioning(self, lock: SeenLock, waiters: Collection[int]) -> SeenLock:
        return replace(lock, held=may_be_held_by(self._mentions.threads_with(lock.address) - set(waiters)))

    def _readers(self, lock: SeenLock, waiters: Collection[int]) -> SeenLock:
        """The threads whose code proves that they hold a read lock; others with the lock's address are candidates.

        A thread that waits for the lock may hold it too.
        """
        count = lock.readers
        mentioning = self._mentions.threads_with(lock.address) - set(waiters)
        proven = {*self._proofs(lock, waiters)}
        if len(proven) > count:
            return replace(lock, held=may_be_held_by(proven | mentioning),
                           why=because("too-many-readers", count=count, threads=len(proven)))
        candidates = tuple(sorted(mentioning - proven)) if len(proven) < count else ()
        if proven:
            why = because("proven-readers", count=count, threads=len(proven))
            holders = tuple([Holder(number, SHARED, DERIVED, why) for number in sorted(proven)])
            return replace(lock, held=Known(holders, candidates), why=why)
        return replace(lock, held=may_be_held_by(candidates),
                       why=because("readers-not-recorded", count=count, candidates=len(candidates)))

    def _arriving(self, lock: SeenLock, waiters: Collection[int]) -> SeenLock:
        """The threads that have not arrived at a barrier: all other threads, if their number is that of the missing.

        A thread with the barrier's address on its stack may have created it, or use adjacent memory. A thread that
        joins one of those at the barrier cannot arrive before they continue.
        """
        ends = {id_of_lock(THREAD_EXIT, self._threads[number].pthread) for number in waiters}
        others = tuple(seen.number for seen in self._threads if seen.number not in waiters
                       and (seen.number not in self._waits or self._waits[seen.number].id not in ends))
        missing = lock.held.count if isinstance(lock.held, NotRecorded) else 0
        if self._threads.all_available and len(others) == missing:
            return inferred(lock, others, because("as-many-others", missing=missing))
        mentioning = self._mentions.threads_with(lock.address) - set(waiters)
        return replace(lock, held=may_be_held_by(mentioning), why=because("maybe-not-arrived", missing=missing))

    # -- inside a function -----------------------------------------------------------------------------------

    def _running_once(self, lock: SeenLock, waiters: Collection[int]) -> SeenLock:
        """The thread on whose stack the functions in which the others wait are callers of the initialiser."""
        helpers: set[int] = set()
        inside = set()
        start: dict[int, int] = {}  # the first frame of each waiter outside its own wait
        for number in waiters:
            native = self._threads[number].native(self._code)
            start[number] = self._sites.site(native).caller or 0
            own = self._starts([pc - (i > 0) for i, (pc, _) in enumerate(native[:start[number]])])
            helpers.update(own)
            if len(set(own)) < len(own):  # the initialiser has called it again, by a jump
                inside.add(number)
        for number in self._mentions.threads_with(lock.address):
            native = self._threads[number].native(self._code)
            for i in range(start.get(number, 0) + 1, len(native)):
                pc = native[i][0]
                if (self._sites.in_runtime(pc) and not self._sites.in_runtime(native[i - 1][0])
                        and helpers.intersection(self._starts([pc - 1]))):
                    inside.add(number)
                    break
        return one_inside(self._threads, lock, inside, "initialiser")

    def _starts(self, pcs: Iterable[int]) -> list[int]:
        return [found[0] for found in map(self._code.function_range, pcs) if found is not None]

    def _initialising(self, lock: SeenLock, waiters: Collection[int]) -> SeenLock:
        """The thread whose stack is between the acquisition of a guard and its release."""
        # acquiring function, releasing function -> return addresses of the waiters' calls
        calls: dict[tuple[int, int], set[int]] = {}
        outside: dict[int, int] = {}  # the first frame of each waiter outside its own wait
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
        sections = [Section(acquire, release, lock.address, frozenset(own))
                    for (acquire, release), own in calls.items()]
        inside = {seen.number for seen in self._threads if seen.unavailable is None
                  and any(self._sections.contains(section, seen.native(self._code), outside.get(seen.number, 1))
                          for section in sections)}
        return one_inside(self._threads, lock, inside, "static-initialiser")

    def _guard_depth(self, native: Sequence[tuple[int, int]]) -> int | None:
        """Index of the frame of `__cxa_guard_acquire`: it calls `syscall` of the C library."""
        for i in range(1, min(len(native) - 1, 3)):
            if self._code.module(native[i][0]) is not self._code.module(native[0][0]):
                return i
        return None

    def _allocating(self, lock: SeenLock, waiters: Collection[int]) -> SeenLock:
        """The threads inside the allocator with the arena; also a waiter that a signal interrupted in the allocator."""
        inside = set()
        for seen in self._threads:
            if seen.unavailable is not None:
                continue
            native = seen.native(self._code)
            start = 0
            if seen.number in waiters:
                start = before_signal(self._memory, self._code, native)
            if any(self._allocates(native, i) for i in range(start, len(native))):
                high = min(native[-1][1] + OUTERMOST, native[start][1] + MAX_STACK_SCAN)
                if (self._mentions.search_stack(native[start][1], high, {lock.address}) if start else
                        seen.number in self._mentions.threads_with(lock.address)):
                    inside.add(seen.number)
        return one_inside(self._threads, lock, inside, "allocator")

    def _allocates(self, native: Sequence[tuple[int, int]], index: int) -> bool:
        """Whether a frame is in a function of the allocator, or calls one."""
        pc = native[index][0]
        if self._sites.in_runtime(pc):
            function = self._code.symbol(pc, index).function
        elif index and self._sites.in_runtime(native[index - 1][0]):
            target = self._code.cpu.called(self._memory, pc)
            function = self._code.symbol(target).function if target is not None else None
        else:
            return False
        return function is not None and public_name(function) in MALLOC


def _proven(proof: Proof) -> Reason:
    if proof.by_guard:
        return because("guard-in-frame", function=proof.function, module=proof.module, call=proof.call)
    if proof.call is None:
        return because("proven-by-instruction", function=proof.function, module=proof.module)
    return because("proven-by-code", function=proof.function, module=proof.module, call=proof.call)


def _takers(proofs: Mapping[int, Proof]) -> Sequence[Reason]:
    """The functions in which candidates have acquired a lock."""
    threads: dict[tuple[str | None, str, str | None], list[int]] = {}
    for number, proof in sorted(proofs.items()):
        threads.setdefault((proof.function, proof.module, proof.call), []).append(number)
    return [because("called-not-released", threads=tuple(numbers), function=function, module=module, call=call)
            for (function, module, call), numbers in [*threads.items()][:_MAX_TAKERS]]

