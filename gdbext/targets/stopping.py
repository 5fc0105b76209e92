"""Stops single threads of a process for a moment, to read registers that /proc does not show.

A thread is seized and interrupted, so it gets no signal. If this process ends in any way, the kernel resumes the
thread.

A process that executes another program first ends its other threads. The kernel keeps each thread that we have seized
until we have waited for it, and it lets nobody seize a further thread meanwhile: without `_Reaper` both processes would
wait for each other. Source: Linux man-pages 6.05, ptrace(2); Linux 6.1 include/uapi/linux/ptrace.h,
include/uapi/linux/elf.h, fs/exec.c (de_thread).
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import struct
import threading
import time
from collections.abc import Collection, Iterable, Set

from gdbext.inferior.proc.status import has_ended, state_of

_GET_RSEQ_CONFIGURATION, _RSEQ = 0x420F, struct.Struct("<Q4I")
_GETREGSET, _SEIZE, _INTERRUPT, _DETACH = 0x4204, 0x4206, 0x4207, 17
_NT_PRSTATUS, _NT_ARM_TLS = 1, 0x401
_WALL = 0x40000000
#: The longest wait for the threads to stop, in seconds. A thread in an uninterruptible sleep does not stop.
_SECONDS = 0.5
#: The longest wait for threads that did not stop in time, before they are let run again, in seconds. On a busy machine
#: a thread stops when it gets the processor, and it must not remain stopped then.
_LATE_SECONDS = 10.0
#: The time between two waits for ended threads, in seconds: at least, and for each thread, because waiting takes time.
_REAP_EVERY, _REAP_EACH = 0.002, 0.00002
#: How often a thread that we may not stop is tried, and the time after the first try, in seconds. It doubles each time,
#: up to a longest one.
_TRIES, _BETWEEN_TRIES, _LONGEST_WAIT = 20, 0.001, 0.02
#: Most bytes of a register set.
_MOST_BYTES = 1 << 12


class _Iovec(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("size", ctypes.c_size_t)]


class _Reaper:
    """Waits for seized threads that end, in a thread of its own, as the caller may be blocked in a system call."""

    def __init__(self) -> None:
        self._threads: set[int] = set()
        self._lock = threading.Lock()
        self._runs = False

    def watch(self, tid: int) -> None:
        """Wait for one more thread."""
        with self._lock:
            self._threads.add(tid)
            if not self._runs:
                self._runs = True
                threading.Thread(target=self._run, name="gdbext-reaper", daemon=True).start()

    def forget(self, tid: int) -> None:
        """Do not wait for a thread that is no longer seized."""
        with self._lock:
            self._threads.discard(tid)

    def _run(self) -> None:
        while True:
            time.sleep(max(_REAP_EVERY, len(self._threads) * _REAP_EACH))
            with self._lock:
                self._threads = {tid for tid in self._threads if not _is_reaped(tid)}
                if not self._threads:
                    self._runs = False
                    return


def _is_reaped(tid: int) -> bool:
    """Whether a seized thread has ended; if so, it has been waited for."""
    try:
        # the stop of a traced thread is reported, too: that is for the other thread to take
        seen = os.waitid(os.P_PID, tid, os.WEXITED | os.WNOHANG | os.WNOWAIT | _WALL)
        if seen is None or seen.si_code not in (os.CLD_EXITED, os.CLD_KILLED, os.CLD_DUMPED):
            return False
        os.waitid(os.P_PID, tid, os.WEXITED | os.WNOHANG | _WALL)
        return True
    except OSError:  # the other thread has waited for it
        return True


class StoppedThreads:
    """Threads that are stopped until `resume`. All methods must be called by one thread of this process."""

    def __init__(self) -> None:
        self._ptrace = ctypes.CDLL(None, use_errno=True).ptrace
        self._ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
        self._ptrace.restype = ctypes.c_long
        # the signal that each stopped thread was about to get, 0 for none
        self._stopped: dict[int, int] = {}
        self._seized: set[int] = set()
        self._since: float | None = None
        self._reaper = _Reaper()
        #: How long threads were stopped so far, in seconds, without the present stop.
        self.seconds = 0.0
        #: The threads that were stopped at some time.
        self.ever: set[int] = set()
        #: The threads of which a stop may have ended a system call. The caller adds them.
        self.ended: set[int] = set()

    def stop(self, threads: Iterable[int]) -> set[int]:
        """Stop threads by their TIDs; those that are stopped remain so.

        :return: the threads that are stopped now; others have ended, or did not stop in time.
        :raises PermissionError: we may not stop them, or another debugger has them.
        """
        wanted = set(threads)
        for tid in sorted(wanted - self._stopped.keys()):
            self._interrupt(tid)
        self._wait_for(wanted, _SECONDS)
        return wanted & self._stopped.keys()

    def _wait_for(self, wanted: Set[int], seconds: float) -> None:
        """Wait until threads that were interrupted have stopped, or the time is over."""
        end = time.monotonic() + seconds
        pause = 0.0001
        while True:
            for tid in self._late(wanted):
                self._wait(tid)
            if not self._late(wanted) or time.monotonic() > end:
                return
            time.sleep(pause)
            pause = min(2 * pause, 0.01)

    def _late(self, wanted: Set[int]) -> Set[int]:
        """Those threads that were interrupted, and have not stopped yet."""
        return (wanted & self._seized) - self._stopped.keys()

    @property
    def current(self) -> Collection[int]:
        """The threads that are stopped now."""
        return self._stopped.keys()

    def registers(self, tid: int) -> bytes:
        """The general registers of a stopped thread, a ``struct user_regs_struct``; empty if the thread has ended."""
        return self._register_set(tid, _NT_PRSTATUS)

    def thread_area(self, tid: int) -> bytes:
        """The thread pointer of a stopped thread on a processor that has it apart, as arm64; else empty."""
        return self._register_set(tid, _NT_ARM_TLS)

    def _register_set(self, tid: int, kind: int) -> bytes:
        data = ctypes.create_string_buffer(_MOST_BYTES)
        vector = _Iovec(ctypes.addressof(data), _MOST_BYTES)
        if self._call(_GETREGSET, tid, kind, ctypes.addressof(vector)):
            return b""
        return data.raw[:vector.size]

    def kernel_area(self, tid: int) -> tuple[int, int]:
        """Address and size of a stopped thread's ``struct rseq``, which the kernel changes when a thread moves.

        Both are 0 if it has none, or if the kernel is older than 5.13. Source: Linux 6.1 include/uapi/linux/ptrace.h
        (``struct ptrace_rseq_configuration``).
        """
        data = ctypes.create_string_buffer(_RSEQ.size)
        if self._call(_GET_RSEQ_CONFIGURATION, tid, _RSEQ.size, ctypes.addressof(data)):
            return 0, 0
        address, size, _, _, _ = _RSEQ.unpack(data.raw)
        return address, size if address else 0

    def resume(self, threads: Iterable[int] | None = None) -> None:
        """Let threads run again, all by default, also those that did not stop in time.

        One in an uninterruptible sleep will stop after that sleep, and is then let run by the next call, or by the
        kernel when this process ends.
        """
        wanted = set(threads) if threads is not None else {*self._seized}
        self._detach(wanted)
        self._wait_for({tid for tid in self._late(wanted) if state_of(tid) != "D"}, _LATE_SECONDS)
        self._detach(wanted)

    def _detach(self, wanted: Set[int]) -> None:
        for tid in self._stopped.keys() & wanted:
            if not self._call(_DETACH, tid, 0, self._stopped.pop(tid)):  # else it has ended
                self._reaper.forget(tid)
            self._seized.discard(tid)
        if self._since is not None and not self._stopped:
            self.seconds += time.monotonic() - self._since
            self._since = None

    def _interrupt(self, tid: int) -> None:
        if tid not in self._seized:
            for again in range(_TRIES):
                # while a process starts another program, it has two threads with its TID, one of which ends
                number = self._call(_SEIZE, tid, 0, 0)
                if number == errno.ESRCH or number and has_ended(tid):
                    return
                if number != errno.EPERM:
                    break
                time.sleep(min(_BETWEEN_TRIES * 2 ** again, _LONGEST_WAIT))
            if number:
                raise PermissionError(number, os.strerror(number))
            self._seized.add(tid)
            self._reaper.watch(tid)
        if self._since is None:
            self._since = time.monotonic()
        self._call(_INTERRUPT, tid, 0, 0)

    def _wait(self, tid: int) -> None:
        try:
            found, status = os.waitpid(tid, os.WNOHANG | _WALL)
        except ChildProcessError:
            self._seized.discard(tid)
            return
        if found and os.WIFSTOPPED(status):
            # the upper bits have the event: this stop is ours or the process's own, and not due to a signal
            self._stopped[tid] = 0 if status >> 16 else os.WSTOPSIG(status)
            self.ever.add(tid)
        elif found:
            self._seized.discard(tid)

    def _call(self, request: int, tid: int, address: int, data: int) -> int:
        """Call ptrace; return 0 or an error number."""
        return 0 if self._ptrace(request, tid, address, data) != -1 else ctypes.get_errno()

    def __enter__(self) -> StoppedThreads:
        return self

    def __exit__(self, *error: object) -> None:
        with contextlib.suppress(OSError):
            self.resume()
