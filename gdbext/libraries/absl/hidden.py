"""Functions of an Abseil that exports none of them: a thread that waits for a mutex shows which ones acquire it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from gdbext.errors import if_unreadable
from gdbext.libraries.absl.decoding import read_waiter
from gdbext.locks.hiding import Proving
from gdbext.locks.seen import SeenLock
from gdbext.proofs.flow.state import entry
from gdbext.proofs.rules import MAX_PARTS
from gdbext.remembered import remembered
from gdbext.threads.threads import SeenThread, Threads

_MUTEX: Final = "absl-mutex"


class HiddenFunctions:
    """Finds these functions; `known_code` keeps them for the next snapshot."""

    def __init__(self, proving: Proving) -> None:
        self._proving = proving
        self._known_code = proving.known_code
        self._lock = entry(proving.code.cpu.ARGUMENTS[0])

    def find(self, threads: Threads, waits: Mapping[int, SeenLock]) -> frozenset[int]:
        """The functions that acquire mutexes, as all waiting threads show.

        :param waits: the locks that threads wait for, by the thread's number.
        """
        for number, lock in waits.items():
            seen = threads[number]
            if lock.kind == _MUTEX and seen.futex is not None:
                waiter = if_unreadable(None)(read_waiter)(self._proving.memory, seen.futex.address)
                if waiter is not None and not waiter.has_condition and waiter.mutex is None:
                    self.add(seen, lock.address, waiter.params)
        return self._known_code.hidden

    def add(self, seen: SeenThread, address: int, inside: int) -> None:
        """Add the functions that a waiting thread is in, and that return with the mutex.

        The frame of the innermost one contains the structure that describes the wait.

        :param address: of the mutex.
        :param inside: the address of that structure.
        """
        native = seen.native(self._proving.code)
        index = next((i for i, (_, sp) in enumerate(native[1:]) if sp > inside), 0)
        if index < 2 or native[index][1] > inside:
            return
        inner = self._proving.start_of(native[index - 1][0] - 1)
        starts = tuple(self._proving.start_of(pc - 1) for pc, _ in native[index:index + MAX_PARTS])
        hidden = self._known_code.hidden
        if starts[0] is not None and (
                starts[0] in hidden or inner is not None and self._proving.first_argument(seen, index) == address
                and self._keeps(inner, starts[0], native[index][0] - 1)):
            self._known_code.hidden = hidden | {starts[0], *self._acquiring(starts)}

    @remembered
    def _keeps(self, inner: int, start: int, pc: int) -> bool:
        """Whether a function that calls another one, in order to wait, returns with the lock of both first arguments.

        A function of the program does not, if the compiler has inlined all of the library's functions into it.
        """
        functions = self._proving.functions(_MUTEX, None, frozenset((inner,)))
        return functions is not None and functions.analysis.keeps(start, pc, self._lock)

    @remembered
    def _acquiring(self, starts: tuple[int | None, ...]) -> Collection[int]:
        """The callers of the first one of these functions that acquire the lock of their first argument, as it does.

        The last one may acquire it by an instruction, too. The code on that path is for the search for deadlocks,
        changes other words in the same way, and so may seem to release any lock.
        """
        functions = self._proving.functions(_MUTEX, None, frozenset(start for start in starts[:1]
                                                                       if start is not None))
        found: list[int] = []
        for start in starts[1:]:
            if functions is None or start is None:
                break
            summary = functions.analysis.summary_of_call(start)
            if self._lock in summary.acquires:
                found.append(start)
                continue
            if self._lock not in summary.releases and functions.analysis.acquires_by_instruction(
                    start, self._lock) and any(taken.lock == self._lock and taken.always and taken.kept
                                               for taken in summary.taken):
                found.append(start)
            break
        return found
