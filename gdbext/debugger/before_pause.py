"""What the threads of a process do before GDB attaches to it, kept until the process resumes."""

from __future__ import annotations

import os
from collections.abc import Mapping

import gdb

from gdbext import arch
from gdbext.errors import GdbextError
from gdbext.inferior.proc.stopped import read_stopped
from gdbext.inferior.proc.threads import Sleep, read_asleep
from gdbext.model import Stopped
from gdbext.record import record
from gdbext.threads.cut_short import CALLS


@record
class Before:
    """A process before GDB attaches: the calls that threads sleep in, by LWP id, and what keeps it from running."""

    asleep: Mapping[int, Sleep]
    stopped: Stopped | None


_NOT_KNOWN = Before({}, None)


class BeforePause:
    """What was read of one process before a pause, during that pause."""

    def __init__(self) -> None:
        self._before = _NOT_KNOWN
        # GDB has no event for detaching, but its threads are invalid afterwards
        self._thread: gdb.InferiorThread | None = None
        self._is_connected = False

    def keep(self, before: Before) -> None:
        """Keep what was read before GDB attached; GDB must just have attached."""
        self._before, self._thread = before, gdb.selected_thread()
        if not self._is_connected:
            gdb.events.cont.connect(self._forget)
            self._is_connected = True

    def read(self, inferior: gdb.Inferior) -> Before:
        """What a process did before the pause; empty if that is not known."""
        thread = self._thread
        is_same = thread is not None and thread.is_valid() and thread.ptid[0] == inferior.pid
        return self._before if is_same else _NOT_KNOWN

    def _forget(self, event: object) -> None:
        self._before, self._thread = _NOT_KNOWN, None


#: One for all of GDB, because a snapshot may be taken long after GDB has attached.
before_pause = BeforePause()


def read_before_pause(pid: int) -> Before:
    """Read which threads sleep in a call that GDB may end when it attaches, and whether the process is stopped."""
    stopped = read_stopped(pid)
    try:
        names = arch.of(os.uname().machine).system_call_names()
    except GdbextError:
        return Before({}, stopped)
    return Before(read_asleep(pid, {number for number, name in names.items() if name in CALLS}), stopped)
