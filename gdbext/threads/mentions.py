"""Threads that have an address on their stack or in a register. This hints at a user of a lock and proves nothing."""

from __future__ import annotations

from collections.abc import Iterable

from gdbext.errors import GdbextError
from gdbext.inferior.cache import read_available
from gdbext.inferior.protocol import Target
from gdbext.proofs.stack import MAX_STACK_SCAN, OUTERMOST
from gdbext.threads.code import Code
from gdbext.threads.threads import SeenThread, Threads

__all__ = ["MAX_STACK_SCAN", "OUTERMOST", "Mentions"]

class Mentions:
    """Finds the threads that have an address on their stack, or in a register that calls preserve.

    :param addresses: all addresses that will be searched for, so that each stack is read only once.
    """

    def __init__(self, target: Target, code: Code, threads: Threads, addresses: Iterable[int] = ()) -> None:
        self._target = target
        self._code = code
        self._threads = threads
        self._announced = set(addresses)
        self._known: dict[int, set[int]] = {}

    def threads_with(self, address: int) -> set[int]:
        """Numbers of the threads that have an address."""
        if address not in self._known:
            wanted = (self._announced | {address}) - set(self._known)
            self._known.update((at, set()) for at in wanted)
            for seen in self._threads:
                if seen.unavailable is None:
                    for at in self._search_thread(seen, wanted):
                        self._known[at].add(seen.number)
        return self._known[address]

    def _search_thread(self, seen: SeenThread, wanted: set[int]) -> set[int]:
        low = seen.sp & ~7
        found = self.search_stack(low, min(seen.native(self._code)[-1][1] + OUTERMOST, low + MAX_STACK_SCAN), wanted)
        if len(found) < len(wanted):
            try:
                found.update(wanted.intersection(self._target.registers(seen.ref, seen.cpu.CALLEE_SAVED).values()))
            except GdbextError:
                pass
        return found

    def search_stack(self, low: int, high: int, wanted: set[int]) -> set[int]:
        """The addresses that the readable part of a stack contains as aligned words."""
        found: set[int] = set()
        for at in range(low & ~7, high, 1 << 16):
            size = min(1 << 16, high - at) & ~7
            words = read_available(self._target.memory, at, size)
            found.update(wanted.intersection(memoryview(words).cast("Q")))
            if len(words) < size or len(found) == len(wanted):
                break
        return found
