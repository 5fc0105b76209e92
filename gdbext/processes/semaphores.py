"""Which processes have acquired a semaphore of `multiprocessing`: its objects in their memory count it.

Source: CPython 3.13 Modules/_multiprocessing/semaphore.c.
"""

from __future__ import annotations

import struct
import time

from gdbext.inferior.proc.sample import Sample
from gdbext.inferior.proc.shared_memory import Word
from gdbext.model import PyFrame, Report
from gdbext.model.standard_library import role_of

#: How long the memory of all processes may be searched, in seconds, and how much of one process, in bytes.
_SECONDS, _MOST_SEARCHED = 1.5, 512 << 20
_PIECE = 4 << 20
# SemLockObject from `handle` on: sem_t *, unsigned long last_tid, int count, maxvalue, kind
_SEM_LOCK = struct.Struct("<QQiii")
_MOST_COUNT = 1 << 20


def has_own_counts(report: Report | None, is_forked: bool) -> bool:
    """Whether a process has acquired what its objects count; a copy that `fork` makes has the counts of its parent.

    `multiprocessing` sets them to 0 in its processes before it calls a function of the program.
    """
    return not is_forked or any(
        isinstance(frame, PyFrame) and role_of(frame) == "starts-process"
        for thread in (report.threads if report is not None else ()) for frame in thread.stack)


def find_counting(sample: Sample, word: Word) -> frozenset[int] | None:
    """The processes with an object that counts a semaphore as acquired; None if the time was up."""
    deadline = time.monotonic() + _SECONDS
    found = []
    for pid in sample.processes:
        address = sample.shared_memory.address_of(pid, word)
        counts = address is not None and _counts(sample, pid, address, deadline)
        if counts is None:
            return None
        if counts:
            found.append(pid)
    return frozenset(found)


def _counts(sample: Sample, pid: int, address: int, deadline: float) -> bool | None:
    """Whether an object of a process counts the semaphore at an address; None if the time was up."""
    needle = address.to_bytes(8, "little")
    left = _MOST_SEARCHED
    for region in sample.spaces[pid]:
        if region.permissions != "rw" or region.shared or region.path not in (None, "[heap]"):
            continue
        for begin, end in sample.used(pid, region):
            for at in range(begin, end, _PIECE):
                if time.monotonic() > deadline or left <= 0:
                    return None
                # an object may extend into the next piece
                wanted = min(_PIECE + _SEM_LOCK.size, end - at)
                if _has_acquired(sample.memory(pid, at, wanted, some=True) or b"", needle):
                    return True
                left -= wanted
    return False


def _has_acquired(data: bytes, needle: bytes) -> bool:
    at = data.find(needle)
    while at >= 0:
        if not at % 8 and at + _SEM_LOCK.size <= len(data):
            _, thread, count, most, kind = _SEM_LOCK.unpack_from(data, at)
            if thread and 0 < count < _MOST_COUNT and most == 1 and kind in (0, 1):
                return True
        at = data.find(needle, at + 1)
    return False
