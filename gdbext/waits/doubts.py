"""Reasons to doubt a verdict: parts of the target that could not be read, and events that may still wake a thread."""

from __future__ import annotations

from collections.abc import Mapping

from gdbext.cpython.signals import handled_signals
from gdbext.errors import GdbextError
from gdbext.inferior.awaited import READ, WRITE, read_watched
from gdbext.inferior.cache import read_u32
from gdbext.locks.seen import SeenLock, SeenWait
from gdbext.model import TO_WRITE, Lock
from gdbext.model.kinds import DESCRIPTOR, FILE_LOCK, GIL, kind_of
from gdbext.model.reasons import Reason, because, because_of
from gdbext.threads.gone import GoneOwners
from gdbext.threads.threads import SeenThread
from gdbext.waits.context import Context
from gdbext.waits.native import ANYONE_WAKES

_IO_URING = "anon_inode:[io_uring]"
#: How many threads are named in the reason why there is no verdict.
_MAX_NAMED = 8


class Doubts:
    """What may still wake the threads of a snapshot, and what of it could not be read. It is read on request.

    :param waits: by thread number.
    :param locks: by id, with their holders.
    """

    def __init__(self, context: Context, waits: Mapping[int, SeenWait], locks: Mapping[str, Lock],
                 gone: GoneOwners) -> None:
        self._context = context
        self._waits = waits
        self._locks = locks
        self._gone = gone

    def was_forked(self) -> bool:
        """Whether the process is known to be a child of fork that has not called execve since."""
        return bool(self._gone.was_forked())

    def first_wants_lock_alone(self) -> bool:
        """Whether the first thread waits for a lock of Python at the beginning of a `with` block."""
        first = self._context.threads.first
        return bool(first) and self._waits_in_python(first) and self._context.python_locks.waits_in_with(
            self._context.threads[first])

    def only_threads_wake(self) -> bool:
        """Whether no other process and no request to the kernel can wake a thread.

        A linked request of io_uring may wake a futex word when another has completed (Linux 6.7 io_uring/futex.c).
        """
        words = [seen.futex.address for seen in self._context.threads if seen.futex is not None
                 and (wait := self._waits.get(seen.number)) is not None and wait.lock is not None
                 and wait.lock.kind in ANYONE_WAKES]
        return all(map(self._context.is_private, words)) and not (words and self._context.has_mapped(_IO_URING))

    def all_would_sleep_again(self) -> bool:
        """Whether each paused thread would continue to sleep: its futex word still has the expected value.

        A descriptor that a thread waits for must not be ready.

        The locks on files of this process were read during the pause. A thread that waits for the GIL wakes up every
        few milliseconds. It sleeps again while another thread has the GIL.

        Threads are stopped one after another, so one may have been woken by another that was stopped only later.
        """
        for seen in self._context.threads:
            futex, wait = seen.futex, self._waits.get(seen.number)
            if wait is not None and wait.lock is not None and self._sleeps_again(wait.lock):
                if wait.lock.kind == DESCRIPTOR and self._is_ready(seen, wait.lock):
                    return False
                continue
            try:
                if futex is None or read_u32(self._context.target.memory, futex.address) != futex.expected:
                    return False
            except GdbextError:
                return False
        return True

    def _is_ready(self, seen: SeenThread, lock: SeenLock) -> bool:
        """Whether a descriptor that a thread waits for has been made ready since the thread was paused."""
        proc, call = self._context.target.proc, seen.call
        if proc is None or call is None:
            return False
        polled = read_watched(call.name or "", call.arguments, self._context.target.memory.read)
        if polled is None:
            polled = [(lock.address, WRITE if lock.state == TO_WRITE else READ)]
        return any(proc.is_ready(fd, way == WRITE) for fd, way in polled)

    def _sleeps_again(self, lock: SeenLock) -> bool:
        """Whether a thread that waits for a lock, and not for a futex word to change, sleeps again if it wakes."""
        if lock.kind == GIL:
            return bool(self._locks[lock.id].holders)
        return (kind_of(lock.kind).waiters == "wake" or lock.kind == DESCRIPTOR
                or lock.kind == FILE_LOCK and not lock.shared)

    def may_get_signals(self) -> bool:
        """Whether some signal's handler may set a thread going.

        The interpreter's own handler of SIGINT and handlers of errors do not. In a core only the handlers are known
        that Python keeps itself. Without these the worst is assumed, except for a Python program whose first thread,
        which would run them, waits in native code: the interpreter runs handlers in its own waits only. Handlers in C
        that a core does not show may post a semaphore.
        """
        handled = [handled_signals(self._context.target.memory, python.runtime, python.objects)
                   for python in self._context.python.pythons]
        if any(handled):
            return True
        proc = self._context.target.proc
        found = proc.has_handlers(bool(self._context.python.pythons)) if proc is not None else None
        if found is not None:
            return found
        wait = self._waits.get(self._context.threads.first)
        if not self._context.python.gils or wait is None or wait.lock is None:
            return True
        if any(each.lock is not None and kind_of(each.lock.kind).released_by == "signal-handlers"
               for each in self._waits.values()):
            return True
        return wait.lock.python is not None and None in handled

    def _waits_in_python(self, number: int) -> bool:
        """Whether a thread waits for a lock of Python."""
        wait = self._waits.get(number)
        return wait is not None and wait.lock is not None and wait.lock.python is not None

    def why_no_verdict(self) -> Reason | None:
        """Why the whole target allows no verdict, or None."""
        if self._context.findings.spent is not None:
            return self._context.findings.spent
        if self._context.findings.incomplete is not None:
            return because_of(self._context.findings.incomplete)
        if self._context.code.truncated is not None:
            return because("text", text=self._context.code.unlisted or self._context.code.truncated)
        if not self._context.library.is_decoded:
            return self._context.library.why
        for gil in [self._locks[gil.lock] for gil in self._context.python.gils]:
            if gil.waiters and gil.state == "held" and not gil.holders and gil.orphan is None:
                return because("gil-holder-unknown", lock=gil.id)
        unread = sum(seen.unavailable is not None for seen in self._context.threads)
        if unread:
            return because("threads-unreadable", count=unread, total=len(self._context.threads))
        doubts = list(dict.fromkeys(self._context.findings.doubts))
        if len(doubts) <= 1:
            return doubts[0] if doubts else None
        return because("doubts", doubts=tuple(doubts[:_MAX_NAMED]), more=max(len(doubts) - _MAX_NAMED, 0))

    def why_unknown_holders(self) -> Reason | None:
        """Why no deadlock can be ruled out, where compiled code waits for a lock that anybody may hold."""
        numbers = [number for number, wait in self._waits.items() if not wait.timed and wait.lock is not None
                   and self._waits_in_python(number) and _has_unknown_holder(self._locks[wait.lock.id])
                   and not self._context.python_locks.is_called_from_python(self._context.threads[number])]
        if not numbers:
            return None
        return because("compiled-code-waits", threads=tuple(numbers[:_MAX_NAMED]),
                       more=max(len(numbers) - _MAX_NAMED, 0))


def _has_unknown_holder(lock: Lock) -> bool:
    return (lock.state == "locked" and not kind_of(lock.kind).records_owner
            and not lock.holders and not lock.orphan)
