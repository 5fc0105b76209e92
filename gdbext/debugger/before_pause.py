"""What the threads of a process sleep in before GDB attaches to it, kept until the process resumes."""

from __future__ import annotations

import os
from collections.abc import Mapping

import gdb

from gdbext import arch
from gdbext.errors import GdbextError
from gdbext.inferior.asleep import Sleep, read_asleep
from gdbext.threads.cut_short import CALLS


class BeforePause:
    """The sleeping threads of one process, during one pause of it."""

    def __init__(self) -> None:
        self._asleep: Mapping[int, Sleep] = {}
        # GDB has no event for detaching, but its threads are invalid afterwards
        self._thread: gdb.InferiorThread | None = None
        self._is_connected = False

    def keep(self, asleep: Mapping[int, Sleep]) -> None:
        """Keep what was read before GDB attached; GDB must just have attached."""
        self._asleep, self._thread = asleep, gdb.selected_thread()
        if not self._is_connected:
            gdb.events.cont.connect(self._forget)
            self._is_connected = True

    def asleep(self, inferior: gdb.Inferior) -> Mapping[int, Sleep]:
        """What the threads of a process slept in before the pause; empty if that is not known."""
        thread = self._thread
        is_same = thread is not None and thread.is_valid() and thread.ptid[0] == inferior.pid
        return self._asleep if is_same else {}

    def _forget(self, event: object) -> None:
        self._asleep, self._thread = {}, None


#: One for all of GDB, because a snapshot may be taken long after GDB has attached.
before_pause = BeforePause()


def read_sleeping_threads(pid: int) -> dict[int, Sleep]:
    """Read which threads of a running process sleep in a call that may return early when GDB attaches."""
    try:
        names = arch.of(os.uname().machine).system_call_names()
    except GdbextError:
        return {}
    return read_asleep(pid, {number for number, name in names.items() if name in CALLS})
