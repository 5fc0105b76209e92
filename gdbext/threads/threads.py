"""The threads of a target: registers, system call, futex wait, TID; and which thread a TID means."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from gdbext.errors import GdbextError, ThreadUnavailable
from gdbext.glibc.futex import FutexWait, Syscall, decode_futex_waits, decode_syscall
from gdbext.glibc.pthread import read_tid
from gdbext.inferior.cache import CachedMemory
from gdbext.inferior.protocol import Memory, Target, ThreadRef
from gdbext.layout.table import Layouts
from gdbext.model import Hold, Wait
from gdbext.model.reasons import Reason, because, because_of
from gdbext.threads.code import Code
from gdbext.threads.findings import Findings

if TYPE_CHECKING:
    from gdbext.cpython.runtime import ThreadState
    from gdbext.threads.python_side import Python

#: How much of a stack is fetched in one read.
_STACK_PREFETCH = 8192


class SeenThread:
    """What is known of one thread; the analysis fills it in step by step."""

    def __init__(self, ref: ThreadRef) -> None:
        self.ref = ref
        self.registers: Mapping[str, int] = {}
        self.pthread = 0
        self.tid: int | None = None
        self.call: Syscall | None = None
        self.futex: FutexWait | None = None
        #: In which interpreters it has a thread state, and the one that it runs in.
        self.tstates: list[tuple[Python, ThreadState]] = []
        self.tstate: ThreadState | None = None
        self.python: Python | None = None
        self.python_name: str | None = None
        self.wait: Wait | None = None
        #: Whether it runs while it waits.
        self.spins = False
        self.holds: list[Hold] = []
        #: Why nothing is known of it, None if it could be read.
        self.unavailable: Reason | None = None
        #: Whether it died of what a handler did: all is told of when the signal came, but for the handler's frames.
        self.is_taken_back = False
        self.handler: list[tuple[int, int]] = []
        self._native: list[tuple[int, int]] | None = None

    @property
    def number(self) -> int:
        """The debugger's number."""
        return self.ref.number

    def at(self, registers: Mapping[str, int], native: list[tuple[int, int]]) -> SeenThread:
        """The same thread at another place of its stack: with registers and frames from there on."""
        other = copy.copy(self)
        other.registers = registers
        other.handler = []
        other._native = native
        return other

    def native(self, code: Code) -> list[tuple[int, int]]:
        """(program counter, stack pointer) of its native frames, innermost first."""
        if self._native is None:
            self._native = code.unwind(self.ref, self.registers)
        return self._native

    def whole(self, code: Code) -> list[tuple[int, int]]:
        """The same with the frames of the handler in which it died."""
        return [*self.handler, *self.native(code)]


class Threads:
    """All threads of a target.

    :param layouts: the C library's, None if they are not known.
    :raises ThreadUnavailable: none of them has registers.
    """

    def __init__(self, target: Target, layouts: Layouts | None, findings: Findings) -> None:
        self._findings = findings
        self._seen = [SeenThread(ref) for ref in target.threads()]
        self._by_number = {seen.number: seen for seen in self._seen}
        for seen in self._seen:
            self._read(target, layouts, seen)
        self._drop_ghosts()
        for seen in self._seen:
            if seen.unavailable is not None:
                findings.problem(f"thread {seen.number}", "unreadable", seen.unavailable)
        if self._seen and all(seen.unavailable is not None for seen in self._seen):
            raise ThreadUnavailable("no thread has registers: all of them run")
        #: Whether each thread could be read, so that what no thread has nobody has.
        self.all_available = all(seen.unavailable is None for seen in self._seen)
        #: ``struct pthread *`` -> number.
        self.number_of_pthread = {seen.pthread: seen.number for seen in self._seen if seen.pthread}
        self._match_tids(layouts is not None, target.pid)

    def __iter__(self) -> Iterator[SeenThread]:
        return iter(self._seen)

    def __len__(self) -> int:
        return len(self._seen)

    def __getitem__(self, number: int) -> SeenThread:
        return self._by_number[number]

    def take_back(self, target: Target, code: Code, seen: SeenThread, registers: Mapping[str, int],
                  handler: int) -> None:
        """Look at a thread as it was when a signal came.

        :param registers: that it had then.
        :param handler: how many of its frames are the handler's.
        """
        native = seen.native(code)
        seen.is_taken_back = True
        seen.handler, seen._native = native[:handler], native[handler:]
        seen.registers = registers
        seen.call = decode_syscall(registers)
        seen.futex = self._futex(target.memory, seen)

    def _read(self, target: Target, layouts: Layouts | None, seen: SeenThread) -> None:
        try:
            seen.registers = target.registers(seen.ref)
        except ThreadUnavailable as error:
            seen.unavailable = because_of(error)
            return
        seen.call = decode_syscall(seen.registers)
        seen.futex = self._futex(target.memory, seen)
        seen.pthread = seen.registers.get("fs_base", 0)
        if isinstance(target.memory, CachedMemory):
            target.memory.prefetch(seen.registers["rsp"], _STACK_PREFETCH)
        if layouts is not None and seen.pthread:
            try:
                seen.tid = read_tid(target.memory, layouts, seen.pthread) or None
            except GdbextError:
                return  # told by `_match_tids`, together with the others

    @staticmethod
    def _futex(memory: Memory, seen: SeenThread) -> FutexWait | None:
        """The only futex wait of a thread; one for any of several words is no lock's."""
        try:
            waits = decode_futex_waits(memory, seen.call)
        except GdbextError:
            return None
        return waits[0] if len(waits) == 1 else None

    def _drop_ghosts(self) -> None:
        """Forget threads that a debugger has made up.

        Of a process in a PID namespace GDB lists each thread of a core twice: as the core has it, and by the number in
        its descriptor, which is another inside; the second has no registers (GDB 13, libthread_db).
        """
        inside = {seen.tid for seen in self._seen if seen.tid and seen.tid != seen.ref.lwp}
        ghosts = [seen for seen in self._seen if seen.unavailable is not None and seen.ref.lwp in inside]
        for ghost in ghosts:
            self._seen.remove(ghost)
            del self._by_number[ghost.number]

    def _match_tids(self, have_layouts: bool, pid: int) -> None:
        """Which thread a TID in an owner field means."""
        self.number_of_tid = {seen.tid: seen.number for seen in self._seen if seen.tid}
        untold = sum(seen.tid is None for seen in self._seen)
        same_namespace = bool(self.number_of_tid) and all(seen.tid in (None, seen.ref.lwp) for seen in self._seen)
        if same_namespace:
            # the debugger's own numbers will do for the threads that do not tell theirs
            self.number_of_tid.update((seen.ref.lwp, seen.number) for seen in self._seen)
        elif untold and have_layouts:
            self._findings.doubt("threads", because("tids-unknown", count=untold, total=len(self._seen)))
        #: Whether the debugger numbers threads as they do themselves.
        self.same_namespace = same_namespace
        self.all_tids_known = same_namespace or not untold
        first = next((seen for seen in self._seen if seen.ref.lwp == pid), None)
        #: The number of the process, as its threads see it: that of its first thread; and that thread's number.
        self.process_tid = (first.tid or first.ref.lwp) if first else min(self.number_of_tid, default=0)
        self.first = first.number if first else 0
