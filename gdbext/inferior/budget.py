"""The budget of a snapshot: how long it may read a target, how much of it, with how much memory, and for what output.

Every walk over a target reads memory or asks for registers, frames or symbols. All of these draw from one budget, and
fail once it is spent. So a walk ends whatever damaged memory leads it to. A snapshot with a spent budget has what was
known until then, and says so.
"""

from __future__ import annotations

import _thread
import math
import os
import signal
import time
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from gdbext.errors import MemoryUnreadable, ThreadUnavailable
from gdbext.inferior.protocol import Symbol, ThreadRef
from gdbext.model.reasons import Reason, because

#: The most memory that one snapshot reads, in bytes.
MOST_BYTES = 4 << 30
#: How much memory this process may get for one snapshot, in bytes, and how many frames a report has.
MOST_MEMORY, MOST_FRAMES = 3 << 30, 1_000_000
#: How often the used memory is measured, and pages are forgotten once the budget is spent, in seconds: a page may be
#: read at that very moment.
_AGAIN = 0.1
_PAGE = os.sysconf("SC_PAGESIZE")
#: Signals for the main thread only: those that GDB and the launcher wait for.
_FOR_MAIN = (signal.SIGINT, signal.SIGTERM, signal.SIGALRM, signal.SIGCHLD, signal.SIGHUP, signal.SIGQUIT,
             signal.SIGWINCH, signal.SIGIO)


class BudgetSpent(MemoryUnreadable):
    """Memory is not read any more, because the snapshot has used its time or has read too much."""

    hint = "the snapshot has used its time: `set gdbext max-pause SECONDS` in GDB, else --max-pause SECONDS"


class Forgetful(Protocol):
    """A memory that draws from a budget."""

    budget: Budget | None

    def forget(self) -> None:
        """Forget what was read, so that further reads must draw."""


class Budget:
    """What one snapshot may use. It starts with its creation; as a context manager it also watches time and memory.

    :param seconds: how long the target may be read; None for no limit.
    :param size: how much may be read, in bytes.
    :param memory: how much memory this process may get meanwhile, in bytes.
    :param frames: how many frames the report may have.
    """

    def __init__(self, seconds: float | None = None, size: int = MOST_BYTES, memory: int = MOST_MEMORY,
                 frames: int = MOST_FRAMES) -> None:
        self._seconds, self._size, self._left = seconds, size, size
        self._own_memory, self._most_memory = memory, used_memory() + memory
        self._frames, self._frames_left = frames, frames
        self._without_stack = 0
        self._end = time.monotonic() + seconds if seconds is not None else math.inf
        self._memory: list[Forgetful] = []
        # held until the snapshot has ended
        self._running = _thread.allocate_lock()
        #: Why nothing is read any more; None as long as the budget lasts.
        self.spent: Reason | None = None

    def draw(self, address: int, size: int) -> None:
        """Draw for a read of the target's memory.

        :raises BudgetSpent: the budget is spent.
        """
        self._left -= size
        if self._left >= 0 and self.spent is None and time.monotonic() < self._end:
            return
        if self._left < 0 and self.spent is None:
            self.spent = because("budget-of-reads", size=self._size)
        if not self.lasts():
            raise BudgetSpent(address, size)

    def lasts(self) -> bool:
        """Whether the budget is not spent."""
        if self.spent is None and time.monotonic() >= self._end:
            self.spent = because("budget-of-time", seconds=f"{self._seconds:g}")
        return self.spent is None

    def draw_frames(self, count: int) -> bool:
        """Draw for the frames of a thread; whether the report may have them."""
        if count > self._frames_left:
            self._without_stack += 1
            return False
        self._frames_left -= count
        return True

    @property
    def left_out(self) -> Reason | None:
        """Which stacks the report lacks because it has too many frames; None if it has all."""
        if not self._without_stack:
            return None
        return because("budget-of-frames", count=self._without_stack, most=self._frames)

    def watch(self, memory: Forgetful) -> None:
        """Have a memory draw from this budget."""
        memory.budget = self
        self._memory.append(memory)

    def __enter__(self) -> Budget:
        if self._end < math.inf:
            # a loop over pages that were read before does not draw, so these are forgotten when the budget is spent
            before = signal.pthread_sigmask(signal.SIG_BLOCK, _FOR_MAIN)
            try:
                # cheaper than `threading.Thread`, which waits until it runs
                self._running.acquire()
                _thread.start_new_thread(self._forget, ())
            except RuntimeError:  # no thread can be started; reads draw all the same
                pass
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return self

    def __exit__(self, *error: object) -> None:
        if self._running.locked():
            self._running.release()

    def _forget(self) -> None:
        while not self._running.acquire(timeout=_AGAIN):
            if self.spent is None and used_memory() > self._most_memory:
                self.spent = because("budget-of-memory", size=self._own_memory)
            if not self.lasts():
                for memory in self._memory:
                    memory.forget()
        self._running.release()


def used_memory() -> int:
    """The memory of this process without files, in bytes; 0 if it is unknown.

    Source: Linux 6.1 Documentation/filesystems/proc.rst, table 1-3: ``resident`` and ``shared``, in pages.
    """
    try:
        with open("/proc/self/statm", "rb") as file:
            _, resident, shared = map(int, file.read(200).split()[:3])
        return (resident - shared) * _PAGE
    except (OSError, ValueError):
        return 0


class BudgetedTarget:
    """A target that gives no registers, frames, symbols and instructions once the budget is spent.

    :param target: a `Target`, which has all other members.
    """

    def __init__(self, target: Any, budget: Budget) -> None:
        self._target, self._budget = target, budget
        self.memory = target.memory
        if hasattr(self.memory, "budget"):  # a page cache; tests have other memory
            budget.watch(self.memory)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._target, name)

    def registers(self, thread: ThreadRef, names: Sequence[str] = ()) -> Mapping[str, int]:
        """See `Target.registers`."""
        self._check()
        found: Mapping[str, int] = self._target.registers(thread, names)
        return found

    def unwind(self, thread: ThreadRef, limit: int) -> list[tuple[int, int]]:
        """See `Target.unwind`."""
        self._check()
        found: list[tuple[int, int]] = self._target.unwind(thread, limit)
        return found

    def frame_registers(self, thread: ThreadRef, index: int) -> Mapping[str, int]:
        """See `Target.frame_registers`."""
        return self._target.frame_registers(thread, index) if self._budget.lasts() else {}

    def variables(self, thread: ThreadRef, index: int) -> Sequence[tuple[str, str, str]]:
        """See `Target.variables`."""
        return self._target.variables(thread, index) if self._budget.lasts() else ()

    def symbol(self, address: int) -> Symbol:
        """See `Target.symbol`."""
        # the time is watched elsewhere, since a report asks for thousands of symbols
        return self._target.symbol(address) if self._budget.spent is None else Symbol(None)

    def frame_symbol(self, address: int) -> Symbol:
        """See `Target.frame_symbol`."""
        return self._target.frame_symbol(address) if self._budget.spent is None else Symbol(None)

    def disassemble(self, low: int, high: int) -> Sequence[tuple[int, int, str]]:
        """See `Target.disassemble`."""
        return self._target.disassemble(low, high) if self._budget.lasts() else ()

    def _check(self) -> None:
        if not self._budget.lasts():
            raise ThreadUnavailable("the time for the snapshot was over")
