"""Two snapshots of a live process, which runs undisturbed in between."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Iterator, Sequence

import gdb

from gdbext.debugger.console import execute
from gdbext.debugger.interrupts import interrupts_blocked
from gdbext.debugger.target import Session
from gdbext.errors import GdbextError, UsageError
from gdbext.model import Report
from gdbext.snapshot import Snapshot, take_snapshot
from gdbext.verdict.confirm import sleepers, what_stayed

#: How long a process that was let go is given to get back into the system calls that the stop interrupted, in seconds.
_SETTLING = 0.1
_SWITCHES = re.compile(rb"^(?:non)?voluntary_ctxt_switches:\s*(\d+)", re.MULTILINE)


class SecondLook:
    """Makes a snapshot, lets the process run, and makes another one.

    GDB is detached meanwhile: the process gets no signal, and nothing of it is stopped. If anything goes wrong,
    Ctrl-C included, it continues without GDB.

    :param seconds: how long it runs between the snapshots.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        #: How long the process stood still for both looks, in seconds.
        self.stopped = 0.0

    def report(self, look: Callable[[Snapshot], Report]) -> Report:
        """Make a report twice, and keep the deadlocks that are in both.

        :raises GdbextError: there is no process that GDB can detach from and attach to again.
        """
        pid = self._process()
        started = time.monotonic()
        with Session() as target:
            first = look(take_snapshot(target))
        lwp = _selected_lwp()
        execute("detach")
        self.stopped += time.monotonic() - started
        watched = sleepers(first)
        try:
            time.sleep(min(_SETTLING, self.seconds))
            before = [_switches(pid, thread) for thread in watched]
            time.sleep(max(self.seconds - _SETTLING, 0.0))
            after = [_switches(pid, thread) for thread in watched]
        except KeyboardInterrupt:
            raise GdbextError("interrupted between the two looks", f"the process runs on; `attach {pid}` looks again"
                              ) from None
        moved = {thread for thread, then, now in zip(watched, before, after) if then is None or then != now}
        started = time.monotonic()
        try:
            with _quiet(), interrupts_blocked():
                execute(f"attach {pid}")
        except gdb.error as error:
            raise GdbextError(f"cannot attach to the process again: {error}",
                              "it may have ended; attach to it again by hand") from None
        _select(lwp)
        with Session() as target:
            second = look(take_snapshot(target))
        self.stopped += time.monotonic() - started
        return what_stayed(first, second, moved)

    @staticmethod
    def _process() -> int:
        inferior = gdb.selected_inferior()
        with Session() as target:
            kind, native = target.kind, target.is_native
        if kind != "live":
            raise UsageError("--confirm needs a live process", "a core allows one look only, without --confirm")
        if not native or not inferior.was_attached:
            raise UsageError("--confirm lets the process go for a moment, so GDB must have been attached to it",
                             "run the command without --confirm")
        return inferior.pid


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep GDB from printing where the process stopped (GDB 12 and later)."""
    try:
        before = gdb.parameter("suppress-cli-notifications")
    except RuntimeError:
        yield
        return
    gdb.execute("set suppress-cli-notifications on")
    try:
        yield
    finally:
        gdb.execute(f"set suppress-cli-notifications {'on' if before else 'off'}")


def _switches(pid: int, lwp: int) -> Sequence[bytes] | None:
    """How often a thread has been switched to and away from, or None if it has ended."""
    try:
        with open(f"/proc/{pid}/task/{lwp}/status", "rb") as file:
            return _SWITCHES.findall(file.read(1 << 16))
    except OSError:
        return None


def _selected_lwp() -> int:
    selected: gdb.InferiorThread | None = gdb.selected_thread()
    return selected.ptid[1] if selected is not None else 0


def _select(lwp: int) -> None:
    for thread in gdb.selected_inferior().threads():
        if thread.is_valid() and thread.ptid[1] == lwp:
            thread.switch()
