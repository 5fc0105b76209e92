"""The input of the recognisers of waits, read once for all threads."""

from __future__ import annotations

from gdbext.glibc.version import CLibrary
from gdbext.inferior.protocol import Memory, Target
from gdbext.record import record
from gdbext.threads.code import Code
from gdbext.threads.findings import Findings
from gdbext.threads.python_side import PythonSide
from gdbext.threads.site import Sites
from gdbext.threads.threads import Threads
from gdbext.waits import lock_kinds
from gdbext.waits.absl import Absl
from gdbext.waits.blocked import Blocked
from gdbext.waits.gpu import Gpu
from gdbext.waits.java import Java
from gdbext.waits.openmp import OpenMP
from gdbext.waits.parked import ParkedWaits, read_parked
from gdbext.waits.python_locks import PythonLocks
from gdbext.waits.qt import Qt
from gdbext.waits.rust import Rust
from gdbext.waits.seen import SeenLock
from gdbext.waits.tbb import Tbb


@record
class Context:
    """The threads of a target, and readers for all that they may wait for.

    `words` is for futex words of the C library; None if its layouts are not known. `locks` caches the lock of each
    futex wait, which many threads share.
    """

    target: Target
    code: Code
    library: CLibrary
    threads: Threads
    sites: Sites
    python: PythonSide
    findings: Findings
    parked: ParkedWaits
    python_locks: PythonLocks
    openmp: OpenMP
    qt: Qt
    rust: Rust
    absl: Absl
    tbb: Tbb
    java: Java
    gpu: Gpu
    blocked: Blocked
    words: lock_kinds.Context | None
    locks: dict[tuple[object, ...], SeenLock]

    def is_private(self, address: int) -> bool:
        """Whether an address is in memory that only this process can have mapped; false if that is not known."""
        region = self.code.space.find(address)
        if region is None or region.shared:
            return False
        # a core does not mark shared mappings, but gives each of them a path, "/dev/zero (deleted)" if it has no file
        return self.target.kind != "core" or region.path is None or self.code.module(address) is not None

    def has_mapped(self, path: str) -> bool:
        """Whether the process has mapped a file or a device of the kernel."""
        return any(region.path == path for region in self.target.regions())

    @property
    def memory(self) -> Memory:
        """The target's memory."""
        return self.target.memory


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
    parked = read_parked(target.memory, threads, python, findings)
    return Context(target, code, library, threads, sites, python, findings, parked,
                   PythonLocks(target, code, threads, python, parked, object_names), OpenMP(target, code, threads),
                   Qt(target, code, threads), Rust(target, code, sites, sleepers), Absl(target),
                   Tbb(target, code, sites), Java(target, code, threads, sites), Gpu(code, threads, sites),
                   Blocked(target, code, sites), words, {})
