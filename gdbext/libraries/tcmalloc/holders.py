"""Finds the thread inside of tcmalloc, whose locks only its own code takes."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from gdbext.locks.library_parts import LibraryHolders
from gdbext.locks.seen import FREE, SeenLock, may_be_held_by, one_inside
from gdbext.model.reasons import because
from gdbext.threads.site import before_signal
from gdbext.threads.threads import SeenThread

#: Most innermost frames of a loop that waits for a spin lock.
_LOOP = 3


class Inside(LibraryHolders):
    """Finds the threads inside of the library."""

    def find(self, lock: SeenLock, waiters: Collection[int]) -> SeenLock | None:
        """The threads inside the library of the lock; also a waiter that a signal interrupted there.

        A thread that is awake in the loop in which others sleep may be another waiter, so it is only a candidate.
        """
        if lock.state == FREE:
            return None
        code, threads = self._scene.code, self._scene.threads
        library = set()
        for number in waiters:
            native = threads[number].native(code)
            module = code.module(native[self._scene.sites.site(native).caller or 0][0])
            library.add(module.path if module is not None else None)
        inside = set()
        for seen in threads:
            native = seen.native(code) if seen.unavailable is None else ()
            start = before_signal(self._scene.memory, code, native) if seen.number in waiters else 0
            modules = (code.module(pc) for pc, _ in native[start:])
            if any(module is not None and module.path in library for module in modules):
                inside.add(seen.number)
        if any(self._is_awake_in_loop(threads[number]) for number in inside):
            return replace(lock, held=may_be_held_by(inside), why=because("maybe-inside", where="tcmalloc"))
        return one_inside(threads, lock, inside, "tcmalloc")

    def _is_awake_in_loop(self, seen: SeenThread) -> bool:
        """Whether a thread retries to acquire a spin lock, between two sleeps."""
        code = self._scene.code
        names = [code.symbol(pc, index).function for index, (pc, _) in enumerate(seen.native(code)[:_LOOP])]
        return seen.futex is None and any("SpinLock" in (name or "") for name in names)

HOLDERS = Inside
