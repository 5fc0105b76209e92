"""Why something is known or not known: a code with arguments. `gdbext.narrate.reasons` has the sentence for each code.

Programs compare codes; nobody parses the sentences.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, Union

from gdbext.model.crash_reasons import CrashCode
from gdbext.record import record

Argument = Union[int, str, None, "Reason", "tuple[int, ...]", "tuple[str, ...]", "tuple[Reason, ...]"]

#: Codes are grouped by the room that gives the reason.
ReasonCode = Literal[
    # any room: a sentence from outside, such as the message of an exception or of a newer version of gdbext;
    # several reasons in one; a part of something that could not be read; a stage that a mistake of gdbext has ended
    "text", "several", "part-unreadable", "stage-failed",
    # model/kinds.py: why locks of a kind have no owner
    "arrivals-not-recorded", "condition-has-no-owner", "condvar-has-no-owner", "event-has-no-owner",
    "java-condition-has-no-owner", "park-has-no-owner", "py-semaphore-has-no-owner", "semaphore-has-no-owner",
    # glibc/, cpython/
    "libc-not-loaded", "libc-version-unknown", "musl-not-decoded", "table-of-other-version",
    # threads/: files, thread states, GILs
    "build-differs", "file-does-not-fit", "finalizing", "frames-unlisted", "frames-without-description",
    "frames-without-file", "gil-claimed-by-others", "greenlets-not-judged", "holder-was-asked", "other-python",
    "owner-in-no-list", "owner-tstate-gone", "runtime-not-initialised", "runs-take-gil", "tids-unknown",
    # threads/gone.py: owners that are not threads of the process; the first three are those of `Lock.orphan`
    "thread-exited", "left-behind-by-fork", "not-a-living-thread",
    "forked-by-other-thread", "idents-not-matched", "not-a-descriptor", "not-a-tid", "owner-descriptor",
    "owner-maybe-unread", "owner-unmapped", "tid-maybe-unread", "tid-not-given-yet", "tid-not-here", "tid-not-listed",
    "tid-of-other-process", "tid-of-parent", "tid-reused", "tid-vanished",
    # waits/: locks
    "held-by-another-process", "lock-about-to-be-taken", "lock-unreadable", "records-no-owner", "readers-counted",
    "ordered-section",
    # waits/: Python locks
    "acquired-and-waits", "acquired-by-call", "acquired-by-call-normally", "acquired-by-several",
    "acquired-not-released", "maybe-released-since",
    "asked-to-stop", "in-critical-section", "in-no-critical-section", "in-several-critical-sections",
    "in-several-with-blocks", "in-with-block", "maybe-left-with-block", "not-all-stopped", "owner-ident-compiled",
    "owner-ident-reused", "queue-counts", "requester-unknown",
    # waits/: OpenMP
    "all-arrived", "idle-pool", "members-elsewhere", "members-missing", "members-not-existing", "numba-waits-for-loop",
    "numba-worker-idle", "openmp-worker",
    "openmp-worker-idle", "openmp-worker-in", "rayon-in-job", "rayon-waits-for-job", "rayon-worker-idle",
    "tbb-has-no-owner", "tbb-runs-task", "tbb-tasks-in", "tbb-waits-in", "tbb-worker-idle", "tokio-block-on",
    "tokio-blocking-idle", "tokio-in-blocking-call", "tokio-in-task", "tokio-worker-idle",
    "owner-is-its-task", "owner-task-unknown", "tasks-left", "tasks-run", "team-starts-or-ends",
    # waits/: Java
    "java-first-reader", "java-lock-stack", "java-owner-claimed", "java-owner-unknown",
    # waits/: Qt
    "qt-call-handled", "qt-call-queued", "qt-call-unknown",
    # waits/: what a thread is blocked on that is not a lock
    "descriptor", "former-descriptor", "in-timed-wait", "interrupted-by-the-pause", "maybe-blocked", "opens", "sleeps",
    "sleeps-for", "sleeps-more",
    "sleeps-until", "waits-for-aio", "waits-for-any-child", "waits-for-child", "waits-for-child-number",
    "waits-for-children", "waits-for-execve", "waits-for-futexes", "waits-for-gpu", "waits-for-group",
    "waits-for-message", "waits-for-own-group", "waits-for-pidfd", "waits-for-room", "waits-for-semaphores",
    "waits-for-signal", "waits-in-cuda", "with-timeout", "wrote-a-part", "child-ended", "children-ended",
    # waits/: the other ends of descriptors
    "connects-to", "copies-to", "descriptor-not-in-core", "descriptor-not-visible", "descriptor-of",
    "descriptor-unreadable", "file-locked-here", "in-accept-queue", "ioctl-request", "locked-by", "locker-not-recorded",
    "locker-unknown", "of-descriptor", "other-end", "other-end-here", "other-end-not-found", "other-end-not-open",
    "other-end-not-searched", "process", "process-running", "this-process", "watches", "watches-nothing",
    # holders/
    "as-many-others", "called-not-released", "descriptor-in-use", "foreign-owner", "guard-in-frame", "in-locker-block",
    "in-shared-generator", "in-greenlet-with-block", "in-suspended-generator", "in-suspended-greenlet",
    "in-suspended-task", "maybe-inside", "maybe-not-arrived", "nobody-inside", "only-thread-inside",
    "owner-called-fork", "proven-by-code", "proven-by-instruction", "proven-readers", "readers-not-recorded",
    "several-proven", "threads-in-file", "too-many-readers",
    # stacks/
    "eval-in-no-frame", "evals-in-one-frame", "frame-counts-differ", "native-stack-cut", "python-stack-cut",
    # schema/
    "deadlocks-not-listed",
    # verdict/
    "deadlocks-dropped", "every-thread-waits", "more-unreadable", "no-other-thread", "owner-gone",
    # launcher/processes/: what threads wait for, who can end that, and what could not be read
    "any-descriptor", "end-of-process", "end-of-thread", "futex-word", "lock-of-file", "named-lock", "reads-descriptor",
    "shared-lock", "writes-descriptor",
    "any-thread-may-release", "children-of-process", "no-thread-can-run", "only-processes-with-end",
    "only-processes-with-memory", "only-processes-with-open-file", "semaphore-counted-by",
    "descriptors-refused", "descriptors-timeout", "other-users-invisible", "other-users-unreadable", "threads-refused",
    # snapshot.py, commands/, debugger/, direct/
    "address-inside", "ambiguous-address", "budget-of-frames", "budget-of-memory", "budget-of-reads", "budget-of-time",
    "compiled-code-waits",
    "died-in-handler", "doubt", "doubts",
    "gil-holder-unknown", "libraries-unlisted", "locks-not-decoded", "made-without-gdb", "not-interleaved",
    "threads-came-or-went", "threads-unreadable", "two-snapshots", "values-withheld",
]


@record
class Reason:
    """A code with its arguments, by name. An argument may contain text from the target, not yet escaped."""

    code: ReasonCode | CrashCode
    arguments: tuple[tuple[str, Argument], ...] = ()


def because(code: ReasonCode | CrashCode, **arguments: Argument) -> Reason:
    """A reason with its arguments as keywords."""
    return Reason(code, tuple(arguments.items()))


def joined(reasons: Sequence[Reason]) -> Reason | None:
    """Several reasons as one; None for none."""
    if len(reasons) > 1:
        return because("several", reasons=tuple(reasons))
    return reasons[0] if reasons else None


def parts(reason: Reason | None) -> tuple[Reason, ...]:
    """The reasons that `joined` was given."""
    if reason is None or reason.code != "several":
        return () if reason is None else (reason,)
    return tuple([part for _, found in reason.arguments if isinstance(found, tuple)
                  for part in found if isinstance(part, Reason)])


def find_reasons(argument: Argument, code: ReasonCode) -> Iterator[Reason]:
    """Iterate over the reasons with a code in an argument, at any depth."""
    if isinstance(argument, tuple):
        for part in argument:
            yield from find_reasons(part, code)
    elif isinstance(argument, Reason):
        if argument.code == code:
            yield argument
        for _, value in argument.arguments:
            yield from find_reasons(value, code)


def because_of(error: Exception, part: str | None = None) -> Reason:
    """The message of an exception; with `part`, one of those of ``part-unreadable``, what could not be read."""
    if part is None:
        return because("text", text=str(error))
    return because("part-unreadable", part=part, error=str(error))
