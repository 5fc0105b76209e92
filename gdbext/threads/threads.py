"""The threads of a target: registers, system call, futex wait, TID; and the thread of a TID."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field

from gdbext import arch
from gdbext.arch.protocol import Architecture, Syscall
from gdbext.errors import GdbextError, ThreadUnavailable, if_unreadable
from gdbext.glibc.futex import FutexWait, decode_futex_waits
from gdbext.glibc.pthread import find_descriptor, pthread_self, read_tid, thread_pointer
from gdbext.inferior.address_space import AddressSpace
from gdbext.inferior.cache import CachedMemory
from gdbext.inferior.protocol import Memory, Module, Target, ThreadRef
from gdbext.layout.table import Layouts
from gdbext.model.reasons import Reason, because, because_of
from gdbext.musl.pthread import Descriptors
from gdbext.record import record
from gdbext.threads.code import Code
from gdbext.threads.findings import Findings

#: How much of each stack is fetched in advance, in bytes.
_STACK_PREFETCH = 8192


@record
class SeenThread:
    """A thread as its registers show it.

    `unavailable` says why the thread could not be read. The state of a thread that a signal handler ended
    `is_restored`: it is the state when the signal arrived, except for the `handler`'s frames. `frames` are its native
    frames if they cannot be unwound from `registers`.
    """

    ref: ThreadRef
    cpu: Architecture
    registers: Mapping[str, int] = field(default_factory=dict)
    pthread: int = 0
    tid: int | None = None
    call: Syscall | None = None
    futex: FutexWait | None = None
    unavailable: Reason | None = None
    is_restored: bool = False
    handler: Sequence[tuple[int, int]] = ()
    frames: Sequence[tuple[int, int]] | None = None

    @property
    def number(self) -> int:
        """The debugger's number."""
        return self.ref.number

    @property
    def pc(self) -> int:
        """Its program counter."""
        return self.registers[self.cpu.PROGRAM_COUNTER]

    @property
    def thread_pointer(self) -> int:
        """Its thread pointer; 0 if not known."""
        return self.registers.get(self.cpu.THREAD_POINTER, 0)

    @property
    def sp(self) -> int:
        """Its stack pointer."""
        return self.registers[self.cpu.STACK_POINTER]

    def native(self, code: Code) -> Sequence[tuple[int, int]]:
        """(program counter, stack pointer) of its native frames, innermost first."""
        return self.frames if self.frames is not None else code.unwind(self.ref, self.registers)

    def whole(self, code: Code) -> list[tuple[int, int]]:
        """Its native frames with those of the handler in which it died."""
        return [*self.handler, *self.native(code)]


class Threads:
    """All threads of a target.

    :param pid: the debugger's number of the process.
    """

    def __init__(self, threads: Iterable[SeenThread], pid: int) -> None:
        self._pid = pid
        self._by_number = {seen.number: seen for seen in threads}
        #: Whether each thread could be read.
        self.all_available = all(seen.unavailable is None for seen in self)
        #: ``struct pthread *`` -> number.
        self.number_of_pthread = {seen.pthread: seen.number for seen in self if seen.pthread}
        #: TID in an owner field -> number.
        self.number_of_tid = {seen.tid: seen.number for seen in self if seen.tid}
        #: Whether the debugger's numbers of the threads are their TIDs.
        self.same_namespace = bool(self.number_of_tid) and all(seen.tid in (None, seen.ref.lwp) for seen in self)
        self.all_tids_known = self.same_namespace or all(seen.tid is not None for seen in self)
        if self.same_namespace:
            # these also serve for threads whose TID could not be read
            self.number_of_tid.update((seen.ref.lwp, seen.number) for seen in self)
        first = next((seen for seen in self if seen.ref.lwp == pid), None)
        #: The TID of the first thread, which is the process id inside its PID namespace; and that thread's number.
        self.process_tid = (first.tid or first.ref.lwp) if first else min(self.number_of_tid, default=0)
        self.first = first.number if first else 0

    def __iter__(self) -> Iterator[SeenThread]:
        return iter(self._by_number.values())

    def __len__(self) -> int:
        return len(self._by_number)

    def __getitem__(self, number: int) -> SeenThread:
        return self._by_number[number]

    def replaced(self, threads: Sequence[SeenThread]) -> Threads:
        """The threads, with these in place of those of the same numbers."""
        if not threads:
            return self
        return Threads({**self._by_number, **{seen.number: seen for seen in threads}}.values(), self._pid)


def read_threads(target: Target, layouts: Layouts | None, findings: Findings,
                 musl: Module | None = None) -> Threads:
    """Read the registers, the system call and the TID of each thread.

    :param layouts: glibc's, None if they are not known.
    :param musl: the file with musl if that is the C library.
    :raises ThreadUnavailable: no thread has registers.
    """
    cpu = arch.of(target.architecture)
    descriptors = (Descriptors(target.memory, cpu, musl, AddressSpace(target.regions())) if musl is not None
                   else None)
    seen = _without_ghosts([_read_thread(target, cpu, layouts, ref, descriptors) for ref in target.threads()])
    for each in seen:
        if each.unavailable is not None:
            findings.problem(f"thread {each.number}", "unreadable", each.unavailable)
    if seen and all(each.unavailable is not None for each in seen):
        if findings.spent is not None:
            raise GdbextError("the time for the snapshot was over before a thread was read",
                              "give it more time: --max-pause SECONDS, in GDB `set gdbext max-pause SECONDS`")
        raise ThreadUnavailable("no thread has registers: all of them run")
    threads = Threads(seen, target.pid)
    if not threads.all_tids_known and (layouts is not None or musl is not None):
        missing = sum(each.tid is None for each in seen)
        findings.doubt("threads", because("tids-unknown", count=missing, total=len(seen)))
    return threads


def _read_thread(target: Target, cpu: Architecture, layouts: Layouts | None, ref: ThreadRef,
                 descriptors: Descriptors | None) -> SeenThread:
    try:
        registers = target.registers(ref)
    except ThreadUnavailable as error:
        return SeenThread(ref, cpu, unavailable=because_of(error))
    if cpu.THREAD_POINTER not in registers and layouts is not None:
        pthread = find_descriptor(target.memory, layouts, target.robust_list(ref))
        if pthread is not None:
            registers = {**registers, cpu.THREAD_POINTER: thread_pointer(cpu, layouts, pthread)}
    call = cpu.system_call(registers)
    futex = decode_futex(target.memory, call)
    pthread = (pthread_self(cpu, layouts, registers) if descriptors is None
               else descriptors.pthread_self(registers))
    if isinstance(target.memory, CachedMemory):
        target.memory.prefetch(registers[cpu.STACK_POINTER], _STACK_PREFETCH)
    tid = None
    if layouts is not None and pthread:
        try:
            tid = read_tid(target.memory, layouts, pthread) or None
        except GdbextError:
            pass  # `read_threads` reports all of them together
    elif descriptors is not None and pthread:
        tid = descriptors.read_tid(pthread, ref.lwp)
    return SeenThread(ref, cpu, registers, pthread, tid, call, futex)


@if_unreadable(None)
def decode_futex(memory: Memory, call: Syscall | None) -> FutexWait | None:
    """The futex wait of a call; None if the call waits for any of several words, which is not a wait for a lock."""
    waits = decode_futex_waits(memory, call)
    return waits[0] if len(waits) == 1 else None


def _without_ghosts(seen: Sequence[SeenThread]) -> list[SeenThread]:
    """The threads without those that only the debugger lists.

    If the process of a core was in a PID namespace, GDB lists each thread twice: by the LWP in the core, and by the
    TID in the thread's descriptor. The second has no registers (GDB 13, libthread_db).
    """
    inside = {each.tid for each in seen if each.tid and each.tid != each.ref.lwp}
    return [each for each in seen if each.unavailable is None or each.ref.lwp not in inside]
