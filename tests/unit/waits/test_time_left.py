from __future__ import annotations

import struct
import time

import pytest

from gdbext.arch.protocol import Syscall
from gdbext.waits.time_left import time_left
from tests.support.fake_memory import FakeMemory

AT = 0x1000


def left(name: str, *arguments: int, seconds: float = 0, now: bool = True) -> float | None:
    memory = FakeMemory({AT: struct.pack("<qq", int(seconds), int(seconds % 1 * 1e9))})
    clocks = {time.CLOCK_REALTIME: 1_000_000.0, time.CLOCK_MONOTONIC: 1_000.0}
    call = Syscall(0, name, (*arguments, *[0] * 6)[:6], True)
    return time_left(memory, call, name, clocks.get if now else None)


@pytest.mark.parametrize(("name", "arguments", "seconds", "expected"), [
    ("poll", (0, 0, 1500), 0, 1.5),
    ("poll", (0, 0, 0xFFFFFFFF), 0, None),
    ("epoll_wait", (3, 0, 9, 250), 0, 0.25),
    ("select", (0, 0, 0, 0, AT), 2.5, 2.5),
    ("ppoll", (0, 0, 0), 0, None),
    ("nanosleep", (AT,), 600, 600.0),
    ("clock_nanosleep", (time.CLOCK_MONOTONIC, 0, AT), 7, 7.0),
    ("clock_nanosleep", (time.CLOCK_MONOTONIC, 1, AT), 1_600, 600.0),
    ("clock_nanosleep", (time.CLOCK_MONOTONIC, 1, AT), 900, 0.0),
    ("clock_nanosleep", (99, 1, AT), 900, None),
    # FUTEX_WAIT is relative, FUTEX_WAIT_BITSET is not
    ("futex", (0x20, 0x80, 0, AT), 5, 5.0),
    ("futex", (0x20, 0x89, 0, AT), 1_005, 5.0),
    ("futex", (0x20, 0x189, 0, AT), 1_000_005, 5.0),
    ("futex", (0x20, 0x86, 0, AT), 1_000_005, 5.0),
    ("futex_wait", (0x20, 0, 0, 2, AT, time.CLOCK_MONOTONIC), 1_005, 5.0),
    ("futex_waitv", (0x20, 1, 0, AT, time.CLOCK_REALTIME), 1_000_005, 5.0),
    ("rt_sigtimedwait", (0x20, 0, AT), 3, 3.0),
    ("mq_timedreceive", (3, 0, 0, 0, AT), 1_000_002, 2.0),
    ("read", (3, 0, 0), 0, None),
    # unreadable
    ("nanosleep", (0x9000,), 0, None),
    ("nanosleep", (AT,), -1, None),
])
def test_time_left(name: str, arguments: tuple[int, ...], seconds: float, expected: float | None) -> None:
    assert left(name, *arguments, seconds=seconds) == expected


def test_core_has_no_clock() -> None:
    assert left("clock_nanosleep", time.CLOCK_MONOTONIC, 1, AT, seconds=1_600, now=False) is None
    assert left("clock_nanosleep", time.CLOCK_MONOTONIC, 0, AT, seconds=7, now=False) == 7.0
