"""The input of the recognisers of waits, read once for all threads."""

from __future__ import annotations

from functools import cached_property

from gdbext import arch
from gdbext.glibc.version import CLibrary
from gdbext.inferior.protocol import Target
from gdbext.libraries import LIBRARIES
from gdbext.locks.library_parts import LibraryWaits, waits_of
from gdbext.locks.scene import Scene
from gdbext.locks.seen import SeenLock
from gdbext.record import record
from gdbext.threads.code import Code
from gdbext.threads.findings import Findings
from gdbext.threads.python_side import PythonSide
from gdbext.threads.site import Sites
from gdbext.threads.threads import Threads
from gdbext.waits import lock_kinds, musl_kinds
from gdbext.waits.blocked import Blocked
from gdbext.waits.parked import ParkedWaits, read_parked
from gdbext.waits.python_locks import PythonLocks

# what almost every snapshot needs is loaded now, not while a process is stopped
for _library in LIBRARIES:
    if _library.files is None:
        waits_of(_library)


@record
class Context(Scene):
    """The threads of a target, and readers for all that they may wait for.

    `words` is for futex words of glibc; None if its layouts are not known. `musl` is for those of musl.
    `locks` caches the lock of each futex wait, which many threads share.
    """

    python: PythonSide
    findings: Findings
    parked: ParkedWaits
    python_locks: PythonLocks
    blocked: Blocked
    words: lock_kinds.Context | None
    musl: musl_kinds.Context | None
    locks: dict[tuple[object, ...], SeenLock]

    @cached_property
    def libraries(self) -> tuple[LibraryWaits, ...]:
        """What threads wait for in the libraries that the process may have."""
        files = {module.name for module in self.code.modules}
        return tuple([waits_of(library)(self) for library in LIBRARIES if library.may_be_in(files)])


def read_context(target: Target, code: Code, library: CLibrary, threads: Threads, sites: Sites, python: PythonSide,
                 findings: Findings, object_names: bool = True) -> Context:
    """Read where threads are parked, and make the readers of everything else.

    :param object_names: see `PythonLocks`.
    """
    sleepers: dict[int, int] = {}
    for seen in threads:
        if seen.futex is not None:
            sleepers[seen.futex.address] = sleepers.get(seen.futex.address, 0) + 1
    words = None
    if library.layouts is not None:
        words = lock_kinds.Context(target.memory, library.layouts, sleepers, threads.number_of_pthread, code.modules,
                                   threads.number_of_tid)
    musl = None
    if library.musl is not None:
        musl = musl_kinds.Context(target, arch.of(target.architecture), threads)
    parked = read_parked(target.memory, threads, python, findings)
    return Context(target, code, library, threads, sites, sleepers, python, findings, parked,
                   PythonLocks(target, code, threads, python, parked, object_names), Blocked(target, code, sites),
                   words, musl, {})
