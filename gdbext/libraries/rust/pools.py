"""What threads of Rust's thread pools wait for, by the names of their functions: rayon and tokio.

Sources: rayon-core 1.10 src/{sleep/mod.rs,registry.rs,latch.rs,job.rs}; tokio 1.24
src/runtime/{park.rs,blocking/pool.rs,scheduler/multi_thread/{park.rs,worker.rs}}. Older tokio has the modules ``park``
and ``runtime::thread_pool``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from gdbext.model.reasons import ReasonCode

#: A wait that only a job of a pool of rayon ends.
WAITS_FOR_JOB: Final[ReasonCode] = "rayon-waits-for-job"
#: Functions of the standard library and of parking_lot, in which the thread sleeps.
_SLEEPS: Final = re.compile(r"^(?:std|core|alloc|parking_lot|parking_lot_core|lock_api|futex)\b")
#: By the function that sleeps: functions further out, each with the reason for the wait if it is found first; and the
#: reason if none is found.
_WAITS: Final[Sequence[tuple[re.Pattern[str], Sequence[tuple[re.Pattern[str], ReasonCode]], ReasonCode | None]]] = (
    (re.compile(r"^rayon_core::(?:sleep::|registry::WorkerThread::wait_until)"),
     ((re.compile(r"rayon_core::job::"), WAITS_FOR_JOB),), "rayon-worker-idle"),
    (re.compile(r"^rayon_core::latch::LockLatch::wait"), (), WAITS_FOR_JOB),
    (re.compile(r"^tokio::runtime::blocking::pool::"), (), "tokio-blocking-idle"),
    (re.compile(r"^tokio::(?:runtime::)?(?:park|scheduler|thread_pool)\b"),
     ((re.compile(r"::block_on\b"), "tokio-block-on"), (re.compile(r"::worker::"), "tokio-worker-idle")), None),
)
#: For any other function that sleeps: those further out, of which the first shows where it was called.
_CALLED_IN: Final[Sequence[tuple[re.Pattern[str], ReasonCode]]] = (
    (re.compile(r"rayon_core::job::"), "rayon-in-job"),
    (re.compile(r"^tokio::runtime::.*::worker::"), "tokio-in-task"),
    (re.compile(r"^tokio::runtime::blocking::pool::"), "tokio-in-blocking-call"),
)


def describe_wait(names: Sequence[str]) -> ReasonCode | None:
    """What a thread waits for that is in a pool, or waits for one; None for any other thread.

    :param names: its functions, innermost first, without brackets around types.
    """
    at = next((i for i, name in enumerate(names) if not _SLEEPS.match(name)), len(names))
    for sleeps, outer, otherwise in _WAITS:
        if at < len(names) and sleeps.match(names[at]):
            return next((code for name in names[at:] for pattern, code in outer if pattern.search(name)), otherwise)
    return next((code for name in names[at:] for pattern, code in _CALLED_IN if pattern.search(name)), None)
