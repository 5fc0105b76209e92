"""Python's own locks that threads wait for: what the program calls them, and which threads hold them.

Some kinds record their owner. A plain `_thread.lock` does not: it is held by the thread that is inside of a `with`
block of it (`DERIVED`), or else no more is known than which threads' frames know the lock (candidates).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from gdbext.cpython.frames import RawFrame
from gdbext.cpython.locks import LockReader, PyLock
from gdbext.cpython.naming import Names
from gdbext.cpython.taken import TakenLock, TakenLocks
from gdbext.cpython.waited import DEPTH, WaitedLocks
from gdbext.cpython.with_blocks import WithBlocks
from gdbext.errors import GdbextError
from gdbext.inferior.protocol import Memory
from gdbext.model import DERIVED, EXCLUSIVE, INFERRED, RECORDED, Holder, Lock, Wait, Waiter
from gdbext.model.kinds import id_of_lock, kind_of
from gdbext.model.reasons import Reason, because, because_of
from gdbext.record import record
from gdbext.threads.findings import Findings
from gdbext.threads.gone import GoneOwners
from gdbext.threads.python_side import Python
from gdbext.threads.threads import SeenThread, Threads
from gdbext.waits.parked import ParkedWaits

#: How many of the waiters of a lock are asked what they call it.
_MAX_LOOKS = 4
#: How many bytes of a native stack are searched for the object that the interpreter waits for there.
_NATIVE = 2048
#: What follows the variable in an expression such as ``forks[1]`` and ``Pool.lock``.
_VARIABLE = re.compile(r"[.\[]")
_INSIDE = because("in-with-block")


class _Reader:
    """What reads the locks of one runtime."""

    def __init__(self, memory: Memory, python: Python, pthreads: Collection[int]) -> None:
        self.layouts = python.runtime.layouts
        self.frames = python.frames
        self.locks = LockReader(memory, self.layouts, python.objects)
        self.names = Names(python.objects, self.frames, self.locks)
        self.waited = WaitedLocks(memory, self.layouts, python.objects, self.frames, self.locks, python.interpreters,
                                  pthreads)
        self._withs = WithBlocks(memory, self.layouts, python.objects, self.frames)
        self.taken = TakenLocks(python.objects, self.frames, self._withs, self.locks)

    def enters(self, tstate: int, word: int) -> bool:
        """Whether a thread that sleeps on a word does so for a `with` statement."""
        stack = self.frames.raw(tstate, DEPTH)
        waited = self.waited.find(word, stack)
        return waited is not None and any(self._withs.is_entering(raw) for raw in stack[:waited[1] + 1])


@dataclass
class _Found:
    """A lock that threads wait for.

    `known_by` are the objects by which they have come to it, `looks` how many of the threads have been looked at.
    """

    lock: PyLock
    reader: _Reader
    id: str
    address: int
    name: str | None = None
    known_by: set[int] = field(default_factory=set)
    looks: int = 0


@record
class _Holding:
    """Who holds a lock, or may, and what is to be said about that."""

    holders: tuple[Holder, ...] = ()
    candidates: tuple[int, ...] = ()
    orphan: Reason | None = None
    orphan_evidence: str = RECORDED
    why: Reason | None = None


class PythonLocks:
    """The locks of Python code that threads wait for."""

    def __init__(self, memory: Memory, threads: Threads, parked: ParkedWaits, gone: GoneOwners,
                 findings: Findings) -> None:
        self._memory = memory
        self._gone = gone
        self._threads = threads
        self._parked = parked
        self._findings = findings
        self._readers: dict[int, _Reader] = {}
        self._found: dict[str, _Found] = {}
        # by runtime and word: the lock that each thread waits for that sleeps there
        self._by_word: dict[tuple[int, int], _Found] = {}
        self._stacks: dict[int, list[tuple[_Reader, list[RawFrame]]]] = {}
        self._taken: dict[int, dict[int, TakenLock]] = {}

    # -- who waits for what ----------------------------------------------------------------------------------

    def wait(self, seen: SeenThread) -> Wait | None:
        """What a thread waits for, if that is one of Python's locks; None otherwise."""
        futex = seen.futex
        if futex is None or futex.expected:  # who waits for a semaphore expects it to be 0
            return None
        for python, tstate in seen.tstates:
            try:
                found = self._recognise(self._reader(python), seen, tstate.address, futex.address)
            except GdbextError as error:
                self._findings.doubt(f"thread {seen.number}", because_of(error, "python-wait"))
                continue
            if found is not None:
                return Wait(found.id, EXCLUSIVE, futex.timed)
        return None

    def _reader(self, python: Python) -> _Reader:
        reader = self._readers.get(id(python))
        if reader is None:
            reader = _Reader(self._memory, python, self._threads.number_of_pthread)
            self._readers[id(python)] = reader
        return reader

    def _recognise(self, reader: _Reader, seen: SeenThread, tstate: int, word: int) -> _Found | None:
        parked = self._parked.parked(seen)
        if parked is not None:
            if parked.handed_off:
                return None  # it has the lock already, and has only not run since
            word = parked.address
        known = self._by_word.get((id(reader), word))
        if known is not None and (known.name is not None or known.looks >= _MAX_LOOKS):
            return known
        stack = reader.frames.raw(tstate, DEPTH)
        waited = reader.waited.find(word, stack, lambda: self._native_words(seen))
        if waited is None:
            return known
        lock, index, path = waited
        found = self._noted(reader, lock)
        found.looks += 1
        found.known_by.update(path)
        if found.name is None and not kind_of(lock.kind).ends_thread:
            named = reader.names.find(stack[index:], path)
            if named is not None:
                found.name, whose = named
                found.known_by.update([whose] if whose else [])
        self._by_word[(id(reader), word)] = found
        return found

    def _native_words(self, seen: SeenThread) -> list[int]:
        """Words on top of a thread's native stack that may be pointers to objects."""
        try:
            data = self._memory.read(seen.registers["rsp"] & ~7, _NATIVE)
        except GdbextError:
            return []
        return [word for word in struct.unpack(f"<{len(data) // 8}Q", data) if word and not word & 7]

    def _noted(self, reader: _Reader, lock: PyLock) -> _Found:
        # who waits with pthread_join has the same lock
        address = lock.address if not kind_of(lock.kind).ends_thread else lock.owner or 0
        lock_id = id_of_lock(lock.kind, address)
        found = self._found.get(lock_id)
        if found is None:
            found = self._found[lock_id] = _Found(lock, reader, lock_id, address, lock.name)
            found.known_by.add(lock.address)
        return found

    # -- who holds what --------------------------------------------------------------------------------------

    def knows(self, lock: str) -> bool:
        """Whether this is a lock that some thread waits for in the interpreter's own code."""
        return lock in self._found

    def wants_alone(self, seen: SeenThread) -> bool:
        """Whether a thread waits at a `with` statement, its own or one of Python's library on its behalf.

        Nobody waits so for something to happen, as may be with ``acquire``: it wants what the lock protects.
        """
        if seen.futex is None or seen.wait is None or seen.wait.lock not in self._found:
            return False
        for python, tstate in seen.tstates:
            try:
                if self._reader(python).enters(tstate.address, self._word(seen)):
                    return True
            except GdbextError:
                continue
        return False

    def waits_of_compiled_code(self, locks: Mapping[str, Lock]) -> list[int]:
        """Threads in which compiled code waits, without a timeout, for a lock whose holder is not known.

        What Cython, Nuitka and the like have made of a `with` statement leaves nothing that names the holder.
        """
        return [seen.number for seen in self._threads if seen.wait is not None and not seen.wait.timed
                and seen.wait.lock in self._found and self._has_unknown_holder(locks[seen.wait.lock])
                and not self._is_called_from_python(seen)]

    @staticmethod
    def _has_unknown_holder(lock: Lock) -> bool:
        return lock.kind == "py-lock" and lock.state == "locked" and not lock.holders and not lock.orphan

    def _is_called_from_python(self, seen: SeenThread) -> bool:
        """Whether a thread waits for a lock that its Python frames have; also true where that cannot be read."""
        for python, tstate in seen.tstates:
            reader = self._reader(python)
            try:
                stack = reader.frames.raw(tstate.address, DEPTH)
                if reader.waited.is_called_from_python(self._word(seen), stack):
                    return True
            except GdbextError:
                return True
        return False

    def _word(self, seen: SeenThread) -> int:
        """The word that a thread sleeps on, or where it is parked."""
        parked = self._parked.parked(seen)
        if parked is not None:
            return parked.address
        return seen.futex.address if seen.futex is not None else 0

    def name_of(self, address: int, numbers: Iterable[int]) -> str | None:
        """What one of some threads calls an object (``PyObject *``), None if none near the top of its stack does."""
        for number in numbers:
            for reader, stack in self._stacks_of(number):
                named = reader.names.find(stack, [address])
                if named is not None:
                    return named[0]
        return None

    def locks(self) -> list[Lock]:
        """Every lock of Python's that a thread waits for, with holders and waiters."""
        waiters: dict[str, list[Waiter]] = {}
        for seen in self._threads:
            if seen.wait is not None and seen.wait.lock in self._found:
                waiters.setdefault(seen.wait.lock, []).append(Waiter(seen.number, seen.wait.mode))
        return self._as_locks(self._found, waiters)

    def at(self, address: int) -> Lock | None:
        """The lock that the Python object at an address is, whether a thread waits for it or not."""
        pythons = {id(python): python for seen in self._threads for python, _ in seen.tstates}
        for python in pythons.values():
            reader = self._reader(python)
            try:
                lock = reader.locks.decode(address)
            except GdbextError:
                continue
            if lock is not None:
                found = self._noted(reader, lock)
                return self._as_locks({found.id: found}, {})[0]
        return None

    def _as_locks(self, wanted: Mapping[str, _Found], waiters: Mapping[str, Sequence[Waiter]]) -> list[Lock]:
        holding = {found.id: self._recorded(found) for found in wanted.values()}
        unowned = {lock_id: wanted[lock_id] for lock_id, held in holding.items() if held is None}
        holding.update(self._derived(unowned, waiters) if unowned else {})
        made = []
        for found in wanted.values():
            lock, held = found.lock, holding[found.id] or _Holding()
            made.append(Lock(found.id, lock.kind, found.address, found.name, lock.state, held.holders,
                             tuple(waiters.get(found.id, ())), held.candidates, held.orphan,
                             kind_of(lock.kind).wait_for, held.orphan_evidence, held.why, lock.shared))
        return made

    def _recorded(self, found: _Found) -> _Holding | None:
        """The recorded owner of a lock; None if none is recorded though the lock is held.

        The owner is recorded as a thread's ident. If the owner exits without releasing the lock, a new thread may get
        that ident. So a thread is the owner only if one of its frames refers to the lock.
        """
        lock = found.lock
        kind = kind_of(lock.kind)
        if kind.no_owner is not None:
            return _Holding(why=because(kind.no_owner))
        if not lock.locked:
            return _Holding(why=because("lock-about-to-be-taken"))
        passed_on = next((self._parked.passed_on[word] for word in lock.words if word in self._parked.passed_on), None)
        if passed_on is not None:
            return _Holding((Holder(passed_on, EXCLUSIVE, RECORDED),))
        if lock.owner is None:
            return _Holding(why=because("held-by-another-process")) if lock.shared else None
        number = self._threads.number_of_pthread.get(lock.owner)
        if number is not None:
            taken = self._taken_by(number).get(lock.address)
            # a handle to join a thread records the ident of a thread that has not ended
            if not kind.ends_thread and taken is None and not self._refers(number, found):
                if not any(stack for _, stack in self._stacks_of(number)):
                    why = because("owner-ident-compiled", thread=number)
                    return _Holding((Holder(number, EXCLUSIVE, INFERRED, why),))
                return _Holding(candidates=(number,), why=because("owner-ident-reused", thread=number))
            return _Holding((Holder(number, EXCLUSIVE, RECORDED, taken_at=taken.at if taken else None),))
        orphan, evidence, why = self._gone.by_descriptor(lock.owner)
        return _Holding(orphan=orphan, orphan_evidence=evidence, why=why)

    def _refers(self, number: int, found: _Found) -> bool:
        """Whether a frame of a thread refers to a lock."""
        known = _Known([found])
        return any(known.to(reader, raw) for reader, stack in self._stacks_of(number) for raw in stack)

    def _derived(self, unowned: Mapping[str, _Found], waiters: Mapping[str, Sequence[Waiter]]) -> dict[str, _Holding]:
        """Who holds locks that record no owner: who is inside of a `with` block of one, as far as that is certain."""
        inside: dict[int, list[tuple[int, TakenLock]]] = {}
        for seen in self._threads:
            for address, taken in self._taken_by(seen.number).items():
                inside.setdefault(address, []).append((seen.number, taken))
        made: dict[str, _Holding] = {}
        for lock_id, found in unowned.items():
            takers = inside.get(found.lock.address, [])
            if len(takers) > 1:
                made[lock_id] = _Holding(candidates=tuple(sorted(number for number, _ in takers)),
                                         why=because("in-several-with-blocks"))
            for number, taken in takers if len(takers) == 1 else ():
                waits = any(waiter.thread == number for waiter in waiters.get(lock_id, ()))
                doubtful = self._released_by_others(number, found) if waits else taken.unless_waiting
                if taken.released or doubtful:
                    made[lock_id] = _Holding(candidates=(number,), why=because("maybe-left-with-block"))
                else:
                    made[lock_id] = _Holding((Holder(number, EXCLUSIVE, DERIVED, _INSIDE, taken.at),))
        unknown = {lock_id: found for lock_id, found in unowned.items() if lock_id not in made}
        made.update(self._candidates(unknown, waiters) if unknown else {})
        return made

    def _released_by_others(self, number: int, found: _Found) -> bool:
        """Whether another thread may release a lock whose taker waits for it: some programs use one as a signal."""
        known = _Known([found])
        return any(reader.taken.releases(raw) and known.to(reader, raw)
                   for seen in self._threads if seen.number != number
                   for reader, stack in self._stacks_of(seen.number) for raw in stack)

    def _candidates(self, unknown: Mapping[str, _Found],
                    waiters: Mapping[str, Sequence[Waiter]]) -> dict[str, _Holding]:
        """Which threads may hold locks of which nothing more is known: those whose frames know them."""
        known = _Known(unknown.values())
        numbers: dict[str, set[int]] = {lock_id: set() for lock_id in unknown}
        for seen in self._threads:
            for reader, stack in self._stacks_of(seen.number):
                for raw in stack:
                    for found in known.to(reader, raw):
                        numbers[found.id].add(seen.number)
        return {lock_id: _Holding(
            candidates=tuple(sorted(found - {waiter.thread for waiter in waiters.get(lock_id, ())})),
            why=because("records-no-owner", what="python-lock")) for lock_id, found in numbers.items()}

    # -- stacks, each read once ------------------------------------------------------------------------------

    def _stacks_of(self, number: int) -> list[tuple[_Reader, list[RawFrame]]]:
        known = self._stacks.get(number)
        if known is None:
            known = self._stacks[number] = []
            for python, tstate in self._threads[number].tstates:
                reader = self._reader(python)
                try:
                    known.append((reader, reader.frames.raw(tstate.address)))
                except GdbextError:
                    continue  # told where the stack is shown
        return known

    def _taken_by(self, number: int) -> dict[int, TakenLock]:
        """The locks (``PyObject *``) that a thread has taken in `with` statements."""
        known = self._taken.get(number)
        if known is None:
            known = self._taken[number] = {}
            for reader, stack in self._stacks_of(number):
                # of a recursive lock the outermost block is where it was taken
                known.update((taken.lock, taken) for taken in reader.taken.of(stack))
        return known


class _Known:
    """Tells which of some locks a frame knows: as a variable, as an attribute of one, or as a global that it uses."""

    def __init__(self, wanted: Iterable[_Found]) -> None:
        self._by_object: dict[int, list[_Found]] = {}
        for found in wanted:
            for address in found.known_by:
                self._by_object.setdefault(address, []).append(found)
        # by ``dict`` of globals: the names of those of them that are global variables
        self._globals: dict[int, list[tuple[str, int]]] = {}

    def to(self, reader: _Reader, raw: RawFrame) -> list[_Found]:
        """The locks that a frame knows; those of them that can be read."""
        try:
            objects = self._by_object.keys() & reader.frames.variable_values(raw)
            used = self._used_globals(reader, reader.frames.globals(raw))
            if used:
                names = reader.frames.names_used(raw)
                objects |= {address for name, address in used if name in names}
        except GdbextError:
            return []
        return [found for address in objects for found in self._by_object[address]]

    def _used_globals(self, reader: _Reader, namespace: int) -> list[tuple[str, int]]:
        known = self._globals.get(namespace)
        if known is None:
            names = reader.names.globals_of(namespace)[1]
            known = [(_VARIABLE.split(names[address])[0], address) for address in self._by_object if address in names]
            self._globals[namespace] = known
        return known
