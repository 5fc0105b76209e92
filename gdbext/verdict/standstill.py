"""Standstills: every thread of a process waits for what only its own threads could do. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from gdbext.model import Deadlock, Lock, Thread
from gdbext.model.reasons import Reason, because
from gdbext.verdict.wait_for import find_standstill


class Doubts(Protocol):
    """What may still wake a thread. The questions are asked in order, because each costs more than the one before."""

    def was_forked(self) -> bool:
        """Whether the process is known to be a child of fork that has not called execve since."""
        ...

    def first_wants_lock_alone(self) -> bool:
        """Whether the first thread waits for a lock of Python at the beginning of a `with` block."""
        ...

    def why_no_verdict(self) -> Reason | None:
        """Why the whole target allows no verdict, or None."""
        ...

    def all_would_sleep_again(self) -> bool:
        """Whether each paused thread would continue to sleep."""
        ...

    def only_threads_wake(self) -> bool:
        """Whether no other process and no request to the kernel can wake a thread."""
        ...

    def may_get_signals(self) -> bool:
        """Whether some signal's handler may set a thread going."""
        ...


def prove_standstill(threads: Sequence[Thread], locks: Mapping[str, Lock], first: int,
                     doubts: Doubts, closed: Collection[int] = ()) -> Deadlock | None:
    """All threads as one deadlock, if none can continue and nothing outside can wake one.

    :param first: the number of the process's first thread.
    :param closed: see `find_standstill`.
    """
    wants_alone = doubts.first_wants_lock_alone()
    found = find_standstill(threads, locks.values(), first, wants_alone, closed)
    if (found is None or doubts.why_no_verdict() or not doubts.all_would_sleep_again()
            or not doubts.only_threads_wake()):
        return None
    if len(threads) == 1 and wants_alone:
        # a handler of a signal does not release what it has not taken
        owner_unknown = doubts.was_forked() and not locks[found.edges[0].lock].candidates
        return replace(found, why=because("no-other-thread", owner_unknown=int(owner_unknown)))
    return None if doubts.may_get_signals() else found
