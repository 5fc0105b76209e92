"""Threads that wait in the middle of work: in a call that ends, and not in a loop that waits for the next work.

A thread is at rest where its program idles: a worker that takes the next item, an event loop, a server that accepts.
These have a loop. A function without one was called to do something, and its caller needs that to be done. So the
loops of a library, such as those of a pool's worker or of a server, do not count around a function of the program.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from gdbext.cpython.frames import RawFrame
from gdbext.locks.python_reader import Reader
from gdbext.locks.seen import SeenWait
from gdbext.model import LONG, PyFrame
from gdbext.model.frames import library_of
from gdbext.model.standard_library import role_of
from gdbext.threads.threads import SeenThread
from gdbext.waits.context import Context

#: In how many of the program's functions a loop is looked for.
_MOST_FRAMES = 100
#: Modules whose functions only receive.
_RECEIVES: Final = re.compile(
    r"(?:^|/)(?:multiprocessing/(?:connection|queues)|selectors|socket|ssl|zmq/(?:sugar|backend)/[\w/]+)\.py$")


class Place(NamedTuple):
    """Where a thread waits in its program: in the middle of a function that was called, or in a loop, or neither.

    A thread `takes_next` if the program has called nothing else in this turn of the loop.
    """

    at_work: PyFrame | None = None
    in_loop: PyFrame | None = None
    takes_next: bool = False


def find_work(seen: SeenThread, wait: SeenWait, context: Context) -> Place:
    """Where a thread waits, if no timeout ends the wait."""
    # a core does not say how long a timeout was to last
    is_timed = wait.timed and (context.target.kind == "live" if wait.seconds is None else wait.seconds < LONG)
    return Place() if is_timed or wait.lock is None and wait.text is None else work_of(seen, context)


def work_of(seen: SeenThread, context: Context) -> Place:
    """The function of the program's own code that a library has called around a wait, if it is in no loop.

    That is the handler of a request, or the call that a pool runs; or else the outermost function.

    :return: no function as well if there is none, or one of them cannot be read.
    """
    found = None
    for reader, stack in context.python_locks.stacks(seen.number):
        # a process that multiprocessing has forked still has the stack of its parent
        inside = itertools.takewhile(lambda raw: role_of(raw.frame) != "starts-process", stack)
        frames = list(itertools.dropwhile(lambda raw: library_of(raw.frame) is not None, inside))
        is_own = [library_of(raw.frame) is None for raw in frames]
        if sum(is_own) > _MOST_FRAMES:
            return Place()
        for raw in itertools.compress(frames, is_own):
            repeats = reader.functions.repeats(raw.code, raw.offset)
            if repeats is not False:
                return Place(None, raw.frame, _takes_next(reader, stack, raw)) if repeats else Place()
        called = is_own.index(False) if False in is_own else len(frames)
        found = frames[called - 1].frame if called else found
    return Place(found)


def _takes_next(reader: Reader, stack: Iterable[RawFrame], last: RawFrame) -> bool:
    """Whether the wait is the first that the functions up to one with a loop have called in this turn.

    :param stack: the innermost function first.
    """
    for raw in stack:
        if library_of(raw.frame) is None:
            if not reader.functions.begins_turn(raw.code, raw.offset):
                return False
        elif not _RECEIVES.search(raw.frame.file):
            return False
        if raw is last:
            return True
    return False
