"""Waits of threads for monitors and locks of Java, in a Java machine inside of the process: JPype, PyJNIus."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Final

from gdbext.elf.dynamic import find_dynamic_symbol
from gdbext.errors import if_unreadable
from gdbext.inferior.protocol import Module
from gdbext.libraries.java import LIBRARY, heap, hotspot
from gdbext.libraries.java.heap import Objects
from gdbext.libraries.java.hotspot import JavaThread
from gdbext.libraries.java.parking import Parking
from gdbext.locks.library_parts import LibraryWaits
from gdbext.locks.seen import FREE, Orphaned, RecordedTid, SeenLock, held_by, may_be_held_by
from gdbext.model import DERIVED, EXCLUSIVE, RECORDED, SHARED, Evidence, Mode
from gdbext.model.reasons import Reason, because
from gdbext.threads.threads import SeenThread

MONITOR: Final = "java-monitor"
CONDITION: Final = "java-condition"
LOCK: Final = "java-lock"
RWLOCK: Final = "java-rwlock"
PARK: Final = "java-park"


class Java(LibraryWaits):
    """The waits of threads in a Java machine, which is read when the first thread sleeps in it."""

    @cached_property
    def _module(self) -> Module | None:
        """The library of the Java machine; None without one. A process can have only one."""
        return next((module for module in self._code.modules if LIBRARY.has(module.name)), None)

    @cached_property
    def _table(self) -> hotspot.Table | None:
        module = self._module
        if module is None:
            return None

        def find(name: str) -> int | None:
            symbol = find_dynamic_symbol(self._memory, module, name)
            return symbol.address if symbol is not None else None

        return hotspot.read_table(self._memory, find)

    @cached_property
    def _java_threads(self) -> Sequence[JavaThread]:
        return hotspot.read_java_threads(self._memory, self._table) if self._table is not None else ()

    @cached_property
    def _threads_by_pthread(self) -> Mapping[int, Sequence[JavaThread]]:
        """The records of the Java machine with each thread descriptor."""
        found: dict[int, list[JavaThread]] = {}
        for thread in self._java_threads:
            found.setdefault(thread.pthread, []).append(thread)
        return found

    def find_purpose(self, seen: SeenThread, event: SeenLock) -> SeenLock | None:
        """The lock or event of Java for which a thread sleeps on a condition variable; None for any other wait."""
        return self.find_of_condition(seen, event.address)

    @if_unreadable(None)
    def find_of_condition(self, seen: SeenThread, condition: int) -> SeenLock | None:
        """The lock or event of Java for which a thread sleeps on a condition variable; None for any other wait.

        :param condition: ``pthread_cond_t *``.
        """
        if self._module is None or not self._sleeps_in_machine(seen):
            return None
        thread = self._java_thread(seen)
        if thread is None:
            return None
        if thread.state == hotspot.CONDVAR_WAIT:
            return self._parked(thread, condition)
        if not hotspot.is_park_event(self._memory, condition):
            return None
        if thread.state == hotspot.OBJECT_WAIT and thread.waiting and not thread.pending:
            return SeenLock(CONDITION, thread.waiting, "waiting for a notification", name=self._name(thread.waiting),
                            why=because("java-condition-has-no-owner"))
        # a thread that was notified in `Object.wait` has to enter the monitor again
        monitor = thread.pending or thread.waiting
        return self._monitor(thread, monitor) if thread.state == hotspot.MONITOR_WAIT and monitor else None

    def _sleeps_in_machine(self, seen: SeenThread) -> bool:
        """Whether a thread sleeps in the C library, called by the Java machine."""
        native = seen.native(self._code)
        caller = self._sites.site(native).caller
        return caller is not None and self._code.module(native[caller][0]) is self._module

    def _java_thread(self, seen: SeenThread) -> JavaThread | None:
        """The Java machine's record of a thread: the only one with its descriptor and its stack.

        The record of a thread that has ended without notice may have the descriptor of a later thread. After fork, all
        records have TIDs of the parent process.
        """
        found = [thread for thread in self._threads_by_pthread.get(seen.pthread, ())
                 if thread.has_on_stack(seen.sp)]
        found = [thread for thread in found if thread.tid == seen.tid] or found
        return found[0] if len(found) == 1 else None

    def _monitor(self, waiter: JavaThread, address: int) -> SeenLock | None:
        assert self._table is not None
        monitor = hotspot.read_monitor(self._memory, self._table, self._java_threads, address)
        # the waiting thread retries from time to time
        lock = SeenLock(MONITOR, address, "locked", repeats=True, name=self._name(address))
        if monitor.how == "free":
            return replace(lock, state=FREE, why=because("lock-about-to-be-taken"))
        # while objects are moved, the address may be that of another object
        owner = monitor.owner if monitor.how != "lock-stack" or self._objects is not None else None
        if owner is waiter:
            # it has the monitor, so it waits for something else
            return None
        why = because("java-lock-stack") if monitor.how == "lock-stack" else None
        return self._with_owner(lock, owner, monitor.word, DERIVED if why is not None else RECORDED, why)

    def _with_owner(self, lock: SeenLock, owner: JavaThread | None, word: int, evidence: Evidence = RECORDED,
                    why: Reason | None = None, mode: Mode = EXCLUSIVE) -> SeenLock:
        """A lock with its owner.

        :param word: the owner as the lock records it.
        """
        number = self._threads.number_of_pthread.get(owner.pthread) if owner is not None else None
        same = self._threads.number_of_tid.get(owner.tid) if owner is not None else None
        if owner is not None and same is None:
            return replace(lock, held=RecordedTid(owner.tid))
        if number is None or number != same:
            # another thread may have got the descriptor or the TID
            return replace(lock, why=because("java-owner-unknown", word=word))
        return replace(lock, held=held_by((number,), evidence, why, mode), why=why)

    def _name(self, address: int) -> str | None:
        """The class of the object that a monitor belongs to."""
        if self._table is None or self._objects is None:
            return None
        found = heap.class_of_monitor(self._memory, self._table, self._objects, address)
        return f"of {found}" if found is not None else None

    @cached_property
    def _objects(self) -> Objects | None:
        """The reader of objects; None if it is not known where they are, as while they are moved."""
        encoding = heap.read_encoding(self._memory, self._table) if self._table is not None else None
        if self._table is None or encoding is None:
            return None
        return Objects(self._memory, self._table, encoding, lambda at: self._code.module(at) is self._module)

    # -- LockSupport.park ------------------------------------------------------------------------------------

    @cached_property
    def _parking(self) -> Parking | None:
        if self._table is None or self._objects is None:
            return None
        return Parking(self._memory, self._table, self._objects, self._java_threads)

    def _parked(self, thread: JavaThread, condition: int) -> SeenLock | None:
        """What a thread sleeps for on a condition variable that may be that of its ``Parker``."""
        parked = self._parking.read(thread) if self._parking is not None else None
        if self._parking is None or parked is None:
            return None
        name = f"of {parked.class_name}" if parked.class_name is not None else None
        event = SeenLock(PARK, parked.blocker or condition, "parked", name=name, why=because("park-has-no-owner"))
        # a reader waits for other readers only if a writer is before it, which may give up
        if parked.lock is None or parked.shared and parked.readers:
            return event
        owner = None
        if parked.owner and parked.lock != "unknown":
            owner = self._parking.find_thread(parked.owner)
        lock = SeenLock(LOCK, parked.blocker, "locked", name=name)
        if parked.shared is not None:
            lock = SeenLock(RWLOCK, parked.blocker, "read-locked" if parked.readers else "write-locked",
                            SHARED if parked.shared else EXCLUSIVE, name=name)
        if parked.lock == "free":
            return replace(lock, state=FREE, why=because("lock-about-to-be-taken"))
        if parked.lock == "left":
            return replace(lock, held=Orphaned(because("thread-exited")))
        if parked.lock == "read":
            found = self._with_owner(lock, owner, parked.owner, mode=SHARED) if owner is not None else lock
            if not found.holders:
                return replace(lock, why=because("readers-counted", count=parked.readers))
            # one thread may have locked it several times
            first = because("java-first-reader", count=parked.readers)
            return replace(found, why=first) if parked.readers > 1 else found
        found = self._with_owner(lock, owner, parked.owner)
        if parked.lock == "claimed":
            return replace(lock, held=may_be_held_by([holder.thread for holder in found.holders]),
                           why=because("java-owner-claimed") if found.holders else found.why)
        # a thread that has such a lock does not wait for it
        return found if owner is not thread else None


WAITS = Java
