"""Owners of locks that are not threads of the process: threads that exited, or that a fork left behind.

A lock's owner field alone proves neither: the word may be damaged, or be the TID of a thread of another process. Proof
is in the owner's thread descriptor, in the parent process, or in the number itself. Without proof the owner is only
"not a living thread", and conclusions from that are inferred.
"""

from __future__ import annotations

from typing import NamedTuple

from gdbext import arch
from gdbext.errors import GdbextError
from gdbext.glibc.pthread import Descriptor, descriptor_state
from gdbext.inferior.proc.status import PF_FORKNOEXEC, parse_stat
from gdbext.inferior.protocol import Target
from gdbext.layout.table import Layouts
from gdbext.model import DERIVED, INFERRED, RECORDED, Evidence
from gdbext.model.reasons import Reason, because
from gdbext.threads.threads import Threads

LEFT_BEHIND, EXITED = because("left-behind-by-fork"), because("thread-exited")
NOT_LIVING = because("not-a-living-thread")
#: The largest TID of Linux (PID_MAX_LIMIT, Linux 6.1 include/linux/threads.h).
_MAX_TID = 1 << 22
#: Alignment of descriptors at which thread pointers point (glibc 2.36 sysdeps/x86_64/nptl/tls.h, TCB_ALIGNMENT), and
#: the limit below their addresses.
_ALIGNMENT, _LOWEST = 64, 1 << 16
#: The alignment of descriptors in every version of glibc, and on every processor.
_LEAST_ALIGNMENT = 16
#: Fields of /proc/PID/stat behind the name: `flags` and `starttime` (Linux 6.1 fs/proc/array.c, do_task_stat).
_FLAGS, _START = 6, 19


class Gone(NamedTuple):
    """An owner that is not a thread of the process.

    `orphan` is a reason of `Lock.orphan`, or None if the owner may be alive or the field cannot name a thread.
    """

    orphan: Reason | None
    evidence: Evidence
    why: Reason


class GoneOwners:
    """Determines what happened to owners that are not threads of the process.

    :param layouts: the C library's, None if they are not known.
    """

    def __init__(self, target: Target, layouts: Layouts | None, threads: Threads) -> None:
        self._target = target
        self._layouts = layouts
        self._threads = threads

    def by_descriptor(self, pthread: int) -> Gone:
        """Determine what happened to an owner that is recorded as ``pthread_t``.

        :param pthread: ``struct pthread *``, not that of a thread of the process.
        """
        why = because("owner-descriptor", pthread=pthread)
        if not self._threads.number_of_tid:  # an emulator such as Valgrind runs a program whose threads have others
            return Gone(None, RECORDED, because("idents-not-matched", pthread=pthread))
        if not self._threads.all_available:
            return Gone(None, RECORDED, because("owner-maybe-unread", pthread=pthread))
        if pthread % _LEAST_ALIGNMENT:  # a word that points 16 bytes before itself looks like `struct pthread.self`
            return Gone(None, RECORDED, because("not-a-descriptor", pthread=pthread))
        state = descriptor_state(self._target.memory, self._layouts, pthread)
        if state is Descriptor.ENDED:
            return Gone(EXITED, RECORDED, why)
        if state is Descriptor.COPIED and self.was_forked() is False:
            return Gone(None, RECORDED, because("idents-not-matched", pthread=pthread))
        if state is Descriptor.COPIED:
            return Gone(LEFT_BEHIND, RECORDED, why)
        cpu = arch.of(self._target.architecture)
        alignment = _LEAST_ALIGNMENT if cpu.DESCRIPTOR_IS_BELOW else _ALIGNMENT
        if state is Descriptor.UNMAPPED and pthread % alignment == 0 and _LOWEST <= pthread < cpu.HIGHEST_ADDRESS:
            return Gone(NOT_LIVING, INFERRED, because("owner-unmapped", pthread=pthread))
        return Gone(None, RECORDED, because("not-a-descriptor", pthread=pthread))

    def by_tid(self, tid: int) -> Gone:
        """Determine what happened to an owner that is recorded as a TID, which no thread of the process has."""
        if not self._threads.all_tids_known:
            return Gone(None, RECORDED, because("tid-maybe-unread", tid=tid))
        if not 0 < tid <= _MAX_TID:
            return Gone(None, RECORDED, because("not-a-tid", tid=tid))
        proc = self._target.proc if self.was_forked() is not False else None
        if proc is not None and tid in proc.parent_threads()[1]:
            return Gone(LEFT_BEHIND, RECORDED, because("tid-of-parent", tid=tid))
        if tid < self._threads.process_tid and self.first_was_started():
            return Gone(LEFT_BEHIND, DERIVED, because("forked-by-other-thread", tid=tid))
        if self._target.kind == "live" and self._threads.same_namespace:
            return self._by_host(tid)
        return Gone(NOT_LIVING, INFERRED, because("tid-not-here", tid=tid))

    def _by_host(self, tid: int) -> Gone:
        """Determine from /proc what happened to an owner, in a live process."""
        status = self._target.read_host_file(f"/proc/{tid}/status", 4096)
        if status is not None and f"\nTgid:\t{self._target.pid}\n".encode() in status:
            return Gone(None, RECORDED, because("tid-not-listed", tid=tid))
        if status is not None:
            if not self._started_before(tid):
                return Gone(EXITED, INFERRED, because("tid-reused", tid=tid))
            return Gone(None, RECORDED, because("tid-of-other-process", tid=tid))
        last = self._last_tid()
        if last is not None and self._threads.process_tid < last < tid:
            return Gone(None, RECORDED, because("tid-not-given-yet", tid=tid))
        if tid > self._threads.process_tid:
            return Gone(EXITED, INFERRED, because("tid-vanished", tid=tid))
        return Gone(NOT_LIVING, INFERRED, because("tid-not-here", tid=tid))

    def _started_before(self, tid: int) -> bool:
        """Whether a task of the host started before this process; also true if that is not known."""
        task, process = self._stat(tid, _START), self._stat(self._target.pid, _START)
        return task is None or process is None or task <= process

    def _stat(self, number: int, field: int) -> int | None:
        text = self._target.read_host_file(f"/proc/{number}/stat", 4096) or b""
        try:
            return int(parse_stat(text)[1][field])
        except (ValueError, IndexError):
            return None

    def _last_tid(self) -> int | None:
        text = self._target.read_host_file("/proc/loadavg", 256) or b""
        try:
            return int(text.split()[4])
        except (ValueError, IndexError):
            return None

    def was_forked(self) -> bool | None:
        """Whether fork made the process, which has not called execve since; None if not known."""
        if self.first_was_started():
            return True
        flags = self._stat(self._target.pid, _FLAGS) if self._target.kind == "live" else None
        return bool(flags & PF_FORKNOEXEC) if flags else None  # gVisor has no flags

    def first_was_started(self) -> bool | None:
        """Whether pthread_create started the first thread: then the process is a child of fork. None if not known.

        glibc records a stack block only for threads of pthread_create (glibc 2.36 nptl/allocatestack.c).
        """
        if self._layouts is None or not self._threads.first:
            return None
        try:
            stack, = self._layouts["struct pthread"].reader("stackblock")(
                self._target.memory, self._threads[self._threads.first].pthread)
        except (GdbextError, KeyError):
            return None
        return bool(stack)
