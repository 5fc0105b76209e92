"""The input of the ways to find holders."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property

from gdbext.cpython.frames import RawFrame
from gdbext.holders.inferred import HolderFinder
from gdbext.holders.python_frames import PythonFrames
from gdbext.holders.results import Results
from gdbext.holders.suspended import SuspendedFrames
from gdbext.libraries import LIBRARIES
from gdbext.locks.library_parts import FunctionCall, LibraryHolders, holders_of
from gdbext.locks.python_reader import Reader
from gdbext.locks.scene import Scene
from gdbext.locks.seen import SeenLock, SeenWait
from gdbext.model.kinds import LockKind
from gdbext.proofs.known_code import KnownCode
from gdbext.record import record
from gdbext.threads.gone import GoneOwners
from gdbext.threads.threads import SeenThread
from gdbext.waits.context import Context


@record
class HolderContext:
    """The input of the ways to find holders: the threads with their waits, and readers of everything else.

    `waited` are the locks that threads wait for, by the thread's number.
    """

    waits: Context
    waited: Mapping[int, SeenLock]
    gone: GoneOwners
    frames: PythonFrames
    finder: HolderFinder
    suspended: SuspendedFrames
    results: Results

    @property
    def scene(self) -> Scene:
        """The threads."""
        return self.waits

    def python_stacks(self, number: int) -> Sequence[tuple[Reader, Sequence[RawFrame]]]:
        """The Python frames of a thread in each of its interpreters."""
        return self.waits.python_locks.stacks(number)

    def call_of(self, seen: SeenThread, index: int) -> FunctionCall | None:
        """The call of a caller's function; None if no register or stack slot still contains its argument."""
        return self.finder.call_of(seen, index)

    @cached_property
    def libraries(self) -> Mapping[LockKind, LibraryHolders]:
        """What finds the holders of the libraries' locks, by kind; of the locks that threads wait for."""
        kinds = {lock.kind for lock in self.waited.values()}
        return {kind: found for library in LIBRARIES if not kinds.isdisjoint(library.finds_holders)
                for found in [holders_of(library)(self)] for kind in library.finds_holders}


def holder_context(context: Context, gone: GoneOwners, locks: Collection[SeenLock],
                   waits: Mapping[int, SeenWait], known_code: KnownCode) -> HolderContext:
    """Prepare to find holders.

    :param locks: all locks whose holders will be searched: each stack is searched for all of them at once.
    :param known_code: what earlier snapshots have found out about the code.
    """
    waited = {number: wait.lock for number, wait in waits.items() if wait.lock is not None}
    finder = HolderFinder(context.target, context.code, context.threads, context.sites, context.library.modules, locks,
                          waited, known_code)
    return HolderContext(
        context, waited, gone,
        PythonFrames(context.threads, context.python_locks, [lock for lock in locks if lock.python is not None]),
        finder, SuspendedFrames(context), Results(context, waited))
