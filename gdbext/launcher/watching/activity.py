"""Whether processes do anything, as /proc shows it: nothing is paused and no right is needed.

The kernel counts the time that each thread was on a processor. A thread that waits for the GIL wakes every 5 ms without
any progress, and servers have timers, so a thread counts as moving only if it uses more than `MOVING` of the time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from gdbext.inferior.proc.threads import read_times

#: The share of time on a processor from which a thread moves, and from which it burns.
MOVING, BURNING = 0.02, 0.5
_NANOSECONDS = 1_000_000_000

#: The time of each thread on a processor in nanoseconds, by PID and TID.
Sample = Mapping[tuple[int, int], int]


def read_sample(pids: Iterable[int]) -> Sample:
    """Read the times of all threads of processes."""
    return {(pid, tid): spent for pid in pids for tid, spent in read_times(pid).items()}


def is_still(before: Sample, after: Sample, seconds: float, may_burn: bool = False) -> bool:
    """Whether no thread has moved between two samples.

    :param seconds: the time between them.
    :param may_burn: whether one thread may have burnt.
    """
    if before.keys() != after.keys() or seconds <= 0:
        return False
    shares = [(after[thread] - before[thread]) / _NANOSECONDS / seconds for thread in after]
    moving = [share for share in shares if share > MOVING]
    return not moving or may_burn and len(moving) == 1 and moving[0] > BURNING


class Stillness:
    """Since when a set of threads has been still.

    :param read: reads a sample.
    :param may_burn: as in `is_still`.
    """

    def __init__(self, read: Callable[[], Sample], now: float, may_burn: bool = False) -> None:
        self._read, self._may_burn = read, may_burn
        self._sample, self._at = read(), now
        #: The last time at which a thread was seen to move.
        self.since = now

    def update(self, now: float) -> float:
        """Read another sample; return for how many seconds nothing has moved."""
        sample = self._read()
        if not is_still(self._sample, sample, now - self._at, self._may_burn):
            self.since = now
        self._sample, self._at = sample, now
        return now - self.since
