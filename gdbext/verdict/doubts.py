"""Reasons to doubt a verdict: parts of the target that could not be read, and events that may still wake a thread."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from dataclasses import replace

from gdbext.cpython.signals import handled_signals
from gdbext.errors import GdbextError
from gdbext.inferior.cache import read_u32
from gdbext.inferior.proc import HARMLESS
from gdbext.model import Deadlock, Lock, Thread
from gdbext.model.kinds import FILE_LOCK, GIL, kind_of
from gdbext.model.reasons import Reason, because, because_of
from gdbext.verdict.wait_for import find_standstill
from gdbext.waits.context import Context
from gdbext.waits.native import ANYONE_WAKES
from gdbext.waits.seen import SeenWait

_IO_URING = "anon_inode:[io_uring]"
#: How many threads are named in the reason why there is no verdict.
_MAX_NAMED = 8


def standstill(context: Context, waits: Mapping[int, SeenWait], locks: Mapping[str, Lock],
               threads: Sequence[Thread]) -> tuple[Deadlock, ...]:
    """All threads as one deadlock, if none can continue and nothing outside can wake one; otherwise nothing."""
    first = context.threads.first
    wants_alone = bool(first) and _waits_in_python(waits, first) and context.python_locks.waits_in_with(
        context.threads[first])
    found = find_standstill(threads, locks.values(), first, wants_alone)
    if (found is None or why_no_verdict(context, locks) or not _all_would_sleep_again(context, waits, locks)
            or not _only_threads_wake(context, waits)):
        return ()
    if len(threads) == 1 and wants_alone:
        # typical of a child of fork; a handler of a signal does not release what it has not taken
        candidates = locks[found.edges[0].lock].candidates
        return (replace(found, why=because("no-other-thread", owner_unknown=int(not candidates))),)
    return () if _may_get_signals(context, waits) else (found,)


def _only_threads_wake(context: Context, waits: Mapping[int, SeenWait]) -> bool:
    """Whether no other process and no request to the kernel can wake a thread.

    A linked request of io_uring may wake a futex word when another has completed (Linux 6.7 io_uring/futex.c).
    """
    words = [seen.futex.address for seen in context.threads if seen.futex is not None
             and (wait := waits.get(seen.number)) is not None and wait.lock is not None
             and wait.lock.kind in ANYONE_WAKES]
    return all(map(context.is_private, words)) and not (words and context.has_mapped(_IO_URING))


def _all_would_sleep_again(context: Context, waits: Mapping[int, SeenWait], locks: Mapping[str, Lock]) -> bool:
    """Whether each paused thread would continue to sleep: its futex word still has the expected value.

    The locks on files of this process were read during the pause. A thread that waits for the GIL wakes up every few
    milliseconds. It sleeps again while another thread has the GIL.

    Threads are stopped one after another, so one may have been woken by another that was stopped only later.
    """
    for seen in context.threads:
        futex, wait = seen.futex, waits.get(seen.number)
        if wait is not None and wait.lock is not None and (
                wait.lock.kind == FILE_LOCK and not wait.lock.elsewhere
                or wait.lock.kind == GIL and locks[wait.lock.id].holders):
            continue
        try:
            if futex is None or read_u32(context.target.memory, futex.address) != futex.expected:
                return False
        except GdbextError:
            return False
    return True


def _may_get_signals(context: Context, waits: Mapping[int, SeenWait]) -> bool:
    """Whether some signal's handler may set a thread going.

    The interpreter's own handler of SIGINT and handlers of errors do not. In a core only the handlers are known that
    Python keeps itself; where it does not, the worst is assumed, but for a Python program whose first thread, which
    would run them, waits in native code: the interpreter runs handlers in its own waits only. Handlers in C that a core
    does not show may post a semaphore.
    """
    handled = [handled_signals(context.target.memory, python.runtime, python.objects)
               for python in context.python.pythons]
    if any(handled):
        return True
    # without Python, SIGINT has a handler of the program's own
    harmless = HARMLESS if context.python.pythons else HARMLESS - {signal.SIGINT}
    found = context.target.proc.has_handlers(harmless) if context.target.proc is not None else None
    if found is not None:
        return found
    wait = waits.get(context.threads.first)
    if not context.python.gils or wait is None or wait.lock is None:
        return True
    if any(each.lock is not None and kind_of(each.lock.kind).handler_may_release for each in waits.values()):
        return True
    return wait.lock.python is not None and None in handled


def _waits_in_python(waits: Mapping[int, SeenWait], number: int) -> bool:
    """Whether a thread waits for a lock of Python."""
    wait = waits.get(number)
    return wait is not None and wait.lock is not None and wait.lock.python is not None


def why_no_verdict(context: Context, locks: Mapping[str, Lock]) -> Reason | None:
    """Why the whole target allows no verdict, or None."""
    if context.findings.spent is not None:
        return context.findings.spent
    if context.findings.incomplete is not None:
        return because_of(context.findings.incomplete)
    if context.code.truncated is not None:
        return because("text", text=context.code.unlisted or context.code.truncated)
    if context.library.layouts is None:
        return context.library.why
    for gil in [locks[gil.lock] for gil in context.python.gils]:
        if gil.waiters and gil.state == "held" and not gil.holders and gil.orphan is None:
            return because("gil-holder-unknown", lock=gil.id)
    unread = sum(seen.unavailable is not None for seen in context.threads)
    if unread:
        return because("threads-unreadable", count=unread, total=len(context.threads))
    doubts = list(dict.fromkeys(context.findings.doubts))
    if len(doubts) <= 1:
        return doubts[0] if doubts else None
    return because("doubts", doubts=tuple(doubts[:_MAX_NAMED]), more=max(len(doubts) - _MAX_NAMED, 0))


def why_unknown_holders(context: Context, waits: Mapping[int, SeenWait], locks: Mapping[str, Lock]) -> Reason | None:
    """Why no deadlock can be ruled out, where compiled code waits for a lock that anybody may hold."""
    numbers = [number for number, wait in waits.items() if not wait.timed and wait.lock is not None
               and _waits_in_python(waits, number) and _has_unknown_holder(locks[wait.lock.id])
               and not context.python_locks.is_called_from_python(context.threads[number])]
    if not numbers:
        return None
    return because("compiled-code-waits", threads=tuple(numbers[:_MAX_NAMED]),
                   more=max(len(numbers) - _MAX_NAMED, 0))


def _has_unknown_holder(lock: Lock) -> bool:
    return (lock.state == "locked" and not kind_of(lock.kind).records_owner
            and not lock.holders and not lock.orphan)
