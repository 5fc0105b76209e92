"""Time limits of tests, which are there for programs that hang: longer on a machine that has more to do."""

from __future__ import annotations

import os

#: The number of processes that want a processor, for each processor; at least 1.
LOAD = max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def patience(seconds: float) -> float:
    """The time limit for what takes less than so many seconds on a machine that does nothing else."""
    return seconds * LOAD
