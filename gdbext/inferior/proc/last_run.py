"""How long ago threads ran: ``se.exec_start`` in ``/proc/PID/task/TID/sched``.

That is the time at which a thread last began to run, or was last seen to run, in milliseconds of its processor's clock.
Each processor has a clock of its own, since the kernel subtracts the time of interrupts from it: on a machine with two
processors they differed by 0.9 s after 40 minutes. So this thread runs for a moment on the processor that the other one
ran on, and compares. The file exists if the kernel has CONFIG_SCHED_DEBUG.

Sources: Linux 6.1 kernel/sched/debug.c (``proc_sched_show_task``), kernel/sched/core.c (``update_rq_clock_task``).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

#: How many threads are read: a file takes 0.1 ms.
_MOST = 256
_START = re.compile(rb"^se\.exec_start\s*:\s*(-?[0-9]+\.[0-9]+)$", re.MULTILINE)
#: The member of ``stat`` with the processor that a thread last ran on, counted from the state.
_PROCESSOR = 36


def seconds_since_run(pid: int, tids: Iterable[int], root: str = "/proc") -> dict[int, float]:
    """For each thread that can be read, how long ago it ran last, in seconds.

    :param tids: at most 256 of them are read.
    """
    starts: dict[int, tuple[int, float]] = {}
    for tid in list(tids)[:_MOST]:
        start, processor = _start(f"{root}/{pid}/task/{tid}/sched"), _processor(f"{root}/{pid}/task/{tid}/stat")
        if start is None or processor is None:
            continue
        starts[tid] = processor, start
    clocks = _clocks({processor for processor, _ in starts.values()}, root) if starts else {}
    return {tid: max(clocks[processor] - start, 0.0) / 1000 for tid, (processor, start) in starts.items()
            if processor in clocks}


def _clocks(processors: Iterable[int], root: str) -> dict[int, float]:
    """The time of each processor's clock, in milliseconds; without those that this thread may not use."""
    found: dict[int, float] = {}
    try:
        allowed = os.sched_getaffinity(0)
    except OSError:
        return {}
    try:
        for processor in processors:
            try:
                os.sched_setaffinity(0, {processor})
            except OSError:
                continue
            now = _start(f"{root}/thread-self/sched")
            if now is not None:
                found[processor] = now
    finally:
        try:
            os.sched_setaffinity(0, allowed)
        except OSError:  # a processor was taken away meanwhile
            pass
    return found


def _start(path: str) -> float | None:
    found = _START.search(_read(path, 1024))
    return float(found[1]) if found else None


def _processor(path: str) -> int | None:
    fields = _read(path, 1024).rpartition(b")")[2].split()
    return int(fields[_PROCESSOR]) if len(fields) > _PROCESSOR else None


def _read(path: str, size: int) -> bytes:
    """The beginning of a file; empty if it cannot be read, as if its thread has ended."""
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read(size)
    except OSError:
        return b""
