"""Waits of threads for monitors of Java objects, in a Java machine inside of the process: JPype, PyJNIus."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Final

from gdbext.elf.dynamic import find_dynamic_symbol
from gdbext.errors import if_unreadable
from gdbext.inferior.protocol import Module, Target
from gdbext.model import DERIVED, RECORDED
from gdbext.model.reasons import because
from gdbext.runtimes import hotspot
from gdbext.runtimes.hotspot import JavaThread
from gdbext.threads.code import JAVA_LIBRARY, Code
from gdbext.threads.site import Sites
from gdbext.threads.threads import SeenThread, Threads
from gdbext.waits.seen import FREE, SeenLock, held_by

MONITOR: Final = "java-monitor"
CONDITION: Final = "java-condition"


class Java:
    """The waits of threads for monitors. The Java machine is read when the first thread sleeps in it."""

    def __init__(self, target: Target, code: Code, threads: Threads, sites: Sites) -> None:
        self._memory = target.memory
        self._code = code
        self._threads = threads
        self._sites = sites

    @cached_property
    def _module(self) -> Module | None:
        """The library of the Java machine; None without one. A process can have only one."""
        return next((module for module in self._code.modules if module.name == JAVA_LIBRARY), None)

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

    @if_unreadable(None)
    def find_lock(self, seen: SeenThread, condition: int) -> SeenLock | None:
        """The monitor for which a thread sleeps on a condition variable; None for any other wait.

        :param condition: ``pthread_cond_t *``.
        """
        if self._module is None or not self._sleeps_in_machine(seen):
            return None
        if not hotspot.is_park_event(self._memory, condition):
            return None
        thread = self._java_thread(seen)
        if thread is None:
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
        found = [thread for thread in self._java_threads
                 if thread.pthread == seen.pthread and thread.has_on_stack(seen.sp)]
        found = [thread for thread in found if thread.tid == seen.tid] or found
        return found[0] if len(found) == 1 else None

    def _monitor(self, waiter: JavaThread, address: int) -> SeenLock | None:
        assert self._table is not None
        monitor = hotspot.read_monitor(self._memory, self._table, self._java_threads, address)
        # the waiting thread retries from time to time
        lock = SeenLock(MONITOR, address, "locked", repeats=True, name=self._name(address))
        if monitor.how == "free":
            return replace(lock, state=FREE, why=because("lock-about-to-be-taken"))
        owner = monitor.owner
        if owner is waiter:
            # it has the monitor, so it waits for something else
            return None
        number = self._threads.number_of_pthread.get(owner.pthread) if owner is not None else None
        same = self._threads.number_of_tid.get(owner.tid) if owner is not None else None
        if owner is not None and same is None:
            return replace(lock, owner=owner.tid)
        if number is None or number != same:
            # another thread may have got the descriptor or the TID
            return replace(lock, why=because("java-owner-unknown", word=monitor.word))
        why = because("java-lock-stack") if monitor.how == "lock-stack" else None
        return replace(lock, holders=held_by((number,), DERIVED if why is not None else RECORDED, why), why=why)

    def _name(self, address: int) -> str | None:
        """The class of the object that a monitor belongs to."""
        assert self._table is not None
        found = hotspot.class_name(self._memory, self._table, address,
                                   lambda at: self._code.module(at) is self._module)
        return f"of {found}" if found is not None else None
