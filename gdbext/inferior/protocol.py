"""The protocols through which decoders and analysis read a process or core: memory, threads, registers, modules.

`debugger.target` implements them with GDB, `targets.core` for a core without GDB, tests implement them with bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Protocol

from gdbext.inferior.address_space import Region
from gdbext.inferior.proc.process import Proc
from gdbext.model import InlinedCall, ProblemKind, Stopped, TargetKind
from gdbext.record import record


class Memory(Protocol):
    """Bytes of the target."""

    def read(self, address: int, size: int) -> bytes:
        """Read exactly `size` bytes.

        :raises MemoryUnreadable: not all of them can be read.
        """


@record
class Section:
    """A section of a loaded file, at its run-time addresses [start, end)."""

    name: str
    start: int
    end: int


@record
class Module:
    """An executable or shared object in the target's address space.

    `by_mapping`: it was found by the target's mappings; the debugger does not have it, or its file is missing.
    """

    path: str
    sections: tuple[Section, ...]
    is_main: bool = False
    by_mapping: bool = False

    @property
    def name(self) -> str:
        """The file name without the directory."""
        return self.path.rpartition("/")[2]

    def section(self, name: str) -> Section | None:
        """The section with a name, or None."""
        return next((section for section in self.sections if section.name == name), None)

    def contains(self, address: int) -> bool:
        """Whether an address is in one of the module's sections."""
        return any(section.start <= address < section.end for section in self.sections)


@record
class ThreadRef:
    """A thread as the debugger lists it: its number there, the kernel's LWP id, the name if known."""

    number: int
    lwp: int
    name: str | None


@record
class Symbol:
    """The source location of an address. `function` is None if no symbol covers the address.

    `inlined` are the inlined functions at the address, innermost first; `file` and `line` are those of `function`.
    """

    function: str | None
    file: str | None = None
    line: int | None = None
    inlined: tuple[InlinedCall, ...] = ()


@record
class SignalInfo:
    """A signal as the kernel describes it (``siginfo_t``).

    `address` is the faulting address (``si_addr``), or None for a signal that was sent: then `pid` and `uid` are the
    sender's. `code` is None if only the number is known.
    """

    number: int
    code: int | None
    address: int | None
    pid: int | None = None
    uid: int | None = None


@record
class Origin:
    """Where a target comes from; a member that is not known is None. See `gdbext.model.TargetInfo`.

    `environment` has the variables of `gdbext.inferior.environment` with which the program was started.
    """

    command_line: str | None = None
    host: str | None = None
    time: float | None = None
    stopped: Stopped | None = None
    environment: Mapping[str, str] = field(default_factory=dict)


class Target(Protocol):
    """A stopped process, or a core."""

    kind: TargetKind
    pid: int
    executable: str | None
    architecture: str
    memory: Memory
    #: /proc of a live process; None for a core and for a process on another machine.
    proc: Proc | None

    def origin(self) -> Origin:
        """The command line, the machine, and the time of the snapshot or of the core."""

    def threads(self) -> Sequence[ThreadRef]:
        """All threads, in the debugger's order."""

    def registers(self, thread: ThreadRef, names: Sequence[str] = ()) -> Mapping[str, int]:
        """Registers of the innermost frame, by the debugger's names (``rip``, ``orig_rax``, ``fs_base`` ...).

        :param names: registers to read; by default those for the stack and the system call. Unreadable ones are
            left out, except the program counter and the stack pointer.
        :raises ThreadUnavailable: the thread runs or has no registers.
        """

    def known_registers(self, thread: ThreadRef) -> Mapping[str, int]:
        """The general registers that are known without a stop of the thread; a target that is stopped knows all.

        :raises ThreadUnavailable: the thread cannot be read.
        """

    def seconds_since_run(self, threads: Sequence[ThreadRef]) -> Mapping[int, float]:
        """How long ago threads ran last, in seconds, by their number; without those of which it is not known.

        A debugger that stops threads has run each of them, so it knows nothing.
        """

    def robust_list(self, thread: ThreadRef) -> int | None:
        """The kernel's ``struct robust_list_head *`` of a thread, for targets that do not give the thread pointer."""

    def unwind(self, thread: ThreadRef, limit: int) -> list[tuple[int, int]]:
        """Unwind at most `limit` frames with the debugger's unwinder: (program counter, stack pointer)."""

    def modules(self) -> Sequence[Module]:
        """The executable and all loaded shared objects."""

    def mapped_files(self) -> Sequence[tuple[int, str]]:
        """Mapped files that a core lists: (address of the first page, path); empty for a process."""

    def file_build_id(self, module: Module) -> str | None:
        """The build id of the debugger's copy of a module, in hexadecimal; None if not known."""

    def variable(self, module: Module, name: str) -> int | None:
        """The address of a variable of a module by its symbol, which other files may not see; None if not known."""

    def symbol(self, address: int) -> Symbol:
        """The function or variable that covers an address; without file and line, which may take long to find."""

    def frame_symbol(self, address: int) -> Symbol:
        """As `symbol`, with file, line and inlined calls if debug information has them, for frames that are shown."""

    def source_file(self, address: int) -> str | None:
        """The source file of a code address if debug information has it."""

    def variables(self, thread: ThreadRef, index: int) -> Sequence[tuple[str, str, str]]:
        """The variables of a native frame with debug information: (name, type, value).

        :param index: number of the frame, not counting inlined calls and tail calls; the innermost is 0.
        """

    def selected(self) -> int | None:
        """The number of the debugger's selected thread; in a core, at first the thread that died."""

    def signal(self, thread: ThreadRef) -> SignalInfo | None:
        """The signal that stopped a thread, or None if not known.

        :raises ThreadUnavailable: the thread runs or has no registers.
        """

    def frame_registers(self, thread: ThreadRef, index: int) -> Mapping[str, int]:
        """Registers of a native frame that calls preserve (``rbx``, ``rbp``, ``r12`` - ``r15``), ``rip``, ``rsp``.

        Unknown registers are left out; empty if the frame does not exist. For `index` see `variables`.
        """

    def regions(self) -> Sequence[Region]:
        """The address space, by ascending address; empty if not known."""

    def core_kept(self) -> tuple[int, int] | None:
        """(actual, full) size of a truncated core in bytes; None for a whole core and a process."""

    def disassemble(self, low: int, high: int) -> Sequence[tuple[int, int, str]]:
        """(address, size, text in AT&T syntax) of each instruction that begins in [low, high); empty if unreadable."""

    def demangle(self, name: str) -> str:
        """Demangle a C++ name (``_Z...``); any other name is returned unchanged."""

    def read_host_file(self, path: str, limit: int) -> bytes | None:
        """Read at most `limit` bytes of a file in the target's file system; None if it cannot be read."""

    def has_file(self, path: str) -> bool:
        """Whether a mapped file can be opened by the path of its mapping."""

    def reaches(self, path: str, offset: int) -> bool | None:
        """Whether a mapped file has a byte at an offset now; None if it cannot be opened."""

    def problems(self) -> Iterable[tuple[str, ProblemKind, str]]:
        """Failures of the debugger to read something: (where, what, why)."""
