"""What decoders and analysis see of a process or core: memory, threads, registers, modules, names.

GDB implements these in `debugger.target`; tests implement them from bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from gdbext.inferior.address_space import Region
from gdbext.inferior.proc import Proc
from gdbext.model import ProblemKind, TargetKind
from gdbext.record import record


class Memory(Protocol):
    """Bytes of the target."""

    def read(self, address: int, size: int) -> bytes:
        """Exactly `size` bytes.

        :raises MemoryUnreadable: not all of them can be read.
        """
        ...


@record
class Section:
    """A section of a loaded file, at its run-time addresses [start, end)."""

    name: str
    start: int
    end: int


@record
class Module:
    """An executable or shared object in the target's address space.

    `by_mapping`: only the target's mappings show it, and the debugger does not have it.
    """

    path: str
    sections: tuple[Section, ...]
    is_main: bool = False
    by_mapping: bool = False

    @property
    def name(self) -> str:
        """The file's name without its folder."""
        return self.path.rpartition("/")[2]

    def section(self, name: str) -> Section | None:
        """The section of that name, or None."""
        for section in self.sections:
            if section.name == name:
                return section
        return None

    def contains(self, address: int) -> bool:
        """Whether the address lies in any of the module's sections."""
        return any(section.start <= address < section.end for section in self.sections)


@record
class ThreadRef:
    """A thread as the debugger lists it: its number there, the kernel's LWP id, the name if known."""

    number: int
    lwp: int
    name: str | None


@record
class Symbol:
    """What is at an address. `function` is None where no symbol covers the address."""

    function: str | None
    file: str | None = None
    line: int | None = None


@record
class SignalInfo:
    """A signal as the kernel describes it (``siginfo_t``).

    `address` is that of a fault (``si_addr``), None for a signal that was sent: then `pid` and `uid` are the sender's.
    `code` is None where only the number is known.
    """

    number: int
    code: int | None
    address: int | None
    pid: int | None = None
    uid: int | None = None


class Target(Protocol):
    """A stopped process, or a core."""

    kind: TargetKind
    pid: int
    executable: str | None
    architecture: str
    memory: Memory
    #: What the kernel tells of a live process; None of a core, and of a process on another machine.
    proc: Proc | None

    def threads(self) -> Sequence[ThreadRef]:
        """All threads, in the debugger's order."""
        ...

    def registers(self, thread: ThreadRef, names: Sequence[str] = ()) -> Mapping[str, int]:
        """Registers of the newest frame, by the debugger's names (``rip``, ``orig_rax``, ``fs_base`` ...).

        :param names: which ones; without them those that show the stack and the system call. One that cannot be
            read is left out, except the program counter and the stack pointer.
        :raises ThreadUnavailable: the thread runs or has no registers.
        """
        ...

    def unwind(self, thread: ThreadRef, limit: int) -> list[tuple[int, int]]:
        """(program counter, stack pointer) of at most `limit` frames by the debugger's own unwinder."""
        ...

    def modules(self) -> Sequence[Module]:
        """Everything loaded."""
        ...

    def mapped_files(self) -> Sequence[tuple[int, str]]:
        """(address of the first page, path) of each mapped file, as a core notes them; else empty."""
        ...

    def file_build_id(self, module: Module) -> str | None:
        """The build id of the module's file as the debugger has it, in hexadecimal; None if not known."""
        ...

    def symbol(self, address: int) -> Symbol:
        """The function or variable that covers an address; file and line if debug information has them."""
        ...

    def variables(self, thread: ThreadRef, index: int) -> Sequence[tuple[str, str, str]]:
        """Name, type and value of the variables of a native frame, if there is debug information.

        :param index: of the frame, without inlined calls and tail calls; the innermost is 0.
        """
        ...

    def selected(self) -> int | None:
        """The number of the debugger's selected thread; in a core at first the one that died."""
        ...

    def signal(self, thread: ThreadRef) -> SignalInfo | None:
        """The signal that stopped a thread, None if that is not known.

        :raises ThreadUnavailable: the thread runs or has no registers.
        """
        ...

    def frame_registers(self, thread: ThreadRef, index: int) -> Mapping[str, int]:
        """Registers of a native frame that calls preserve (``rbx``, ``rbp``, ``r12`` - ``r15``), ``rip``, ``rsp``.

        Unknown ones are left out; it is empty where there is no such frame. For `index` see `variables`.
        """
        ...

    def regions(self) -> Sequence[Region]:
        """The address space, by ascending address; empty where it is not known."""
        ...

    def core_kept(self) -> tuple[int, int] | None:
        """(actual, full) size of a truncated core in bytes; None for a whole core and a process."""
        ...

    def disassemble(self, low: int, high: int) -> Sequence[tuple[int, int, str]]:
        """(address, size, text in AT&T syntax) of each instruction that begins in [low, high); empty if unreadable."""
        ...

    def demangle(self, name: str) -> str:
        """The name that a mangled one (``_Z...``) stands for; any other name as it is."""
        ...

    def read_host_file(self, path: str, limit: int) -> bytes | None:
        """At most `limit` bytes of a file of the target's file system, or None."""
        ...

    def has_file(self, path: str) -> bool:
        """Whether a mapped file can be opened by the path of its mapping."""
        ...

    def problems(self) -> Iterable[tuple[str, ProblemKind, str]]:
        """(where, what, why) of what the debugger could not read."""
        ...
