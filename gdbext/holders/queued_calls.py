"""Names the workers of a pool of threads as those who have to make the result of a call in its queue.

Another thread could cancel the call, so that is `INFERRED`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from gdbext.locks.seen import SeenLock, held_by
from gdbext.model import INFERRED
from gdbext.model.kinds import kind_of
from gdbext.model.reasons import because, joined

#: Most functions of queued calls that are named.
_MAX_NAMED = 4


def queued_behind(lock: SeenLock, workers: Sequence[int], function: str | None, functions: Sequence[str | None],
                  complete: bool, waited: Mapping[int, SeenLock]) -> SeenLock:
    """The result of a queued call with the workers, if the pool has no other, and each of them waits for something.

    :param workers: the numbers of the workers.
    :param function: the name of the function that is called.
    :param functions: the names of the functions of all queued calls.
    :param complete: whether these are all workers, and the pool starts no other.
    :param waited: the locks that threads wait for, by the thread's number.
    """
    named = Counter(name for name in functions if name is not None)
    why = because("call-is-queued", function=function, workers=len(workers), queued=len(functions),
                  functions=tuple(name for name, _ in named.most_common(_MAX_NAMED)))
    if not complete or not all(_is_busy(waited.get(number)) for number in workers):
        no_owner = kind_of(lock.kind).no_owner
        return replace(lock, why=why if no_owner is None else joined([why, because(no_owner)]))
    return replace(lock, held=held_by(sorted(workers), INFERRED, why), why=why)


def _is_busy(lock: SeenLock | None) -> bool:
    """Whether a worker waits for something other than calls to run: any other may be the next to take one."""
    return lock is not None and lock.state != "queue is empty"
