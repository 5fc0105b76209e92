"""What the other rooms may ask an architecture: registers, system calls, signal frames, code and its instructions.

A package such as `arch.x86_64` implements `Architecture`. Registers have the debugger's names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal, Protocol, Union

from gdbext.inferior.protocol import Memory, Module, SignalInfo
from gdbext.record import record


@record
class Syscall:
    """A system call that a thread is in.

    `blocked` is false when the call has returned already; `result` is what it has returned then. `name` is None for
    ``restart_syscall``: the kernel restarts a timed wait after a stop, and only the arguments of the original call are
    left.
    """

    number: int
    name: str | None
    arguments: tuple[int, ...]
    blocked: bool
    result: int = 0


@record
class SignalFrame:
    """What the kernel left on a stack when it called a handler: the signal, and the registers that it interrupted.

    `access` is ``read``, ``write`` or ``execute`` where it was a page fault.
    """

    info: SignalInfo
    registers: Mapping[str, int]
    access: str | None


@record
class MemoryOperand:
    """``segment:displacement(base,index,scale)``, with register names as printed.

    `displacement` is signed. An absolute address has neither `base` nor `index`. `index` may be a vector register
    (gather and scatter), and then there is no one address.
    """

    segment: str | None = None
    displacement: int = 0
    base: str | None = None
    index: str | None = None
    scale: int = 1

    @property
    def text(self) -> str:
        """The operand as the debugger prints it."""
        raise NotImplementedError

    @property
    def base_register(self) -> str | None:
        """The whole register of `base`, or of `index` if there is no base; None for the program counter."""
        raise NotImplementedError

    def simple(self, next_address: int) -> tuple[str | None, int] | None:
        """(register, distance) whose sum the address is, with None as the register of a constant address.

        :return: None if the address depends on more.
        """
        raise NotImplementedError

    @property
    def address_registers(self) -> Sequence[str]:
        """The whole registers of `base` and `index`, each once, the program counter left out."""
        raise NotImplementedError

    @property
    def registers(self) -> frozenset[str]:
        """The registers that the address depends on, the program counter left out, the thread pointer included."""
        raise NotImplementedError

    def address(self, registers: Mapping[str, int], next_address: int) -> int | None:
        """The effective address, whether canonical or not; None if a register that it needs is not known.

        :param next_address: where the next instruction begins.
        """
        raise NotImplementedError


#: A register by name, an immediate or the address that a branch leads to, or memory.
Operand = Union[str, int, MemoryOperand]


@record
class Access:
    """One access to memory; an instruction that reads, modifies and writes has two.

    `size` is in bytes, None where it is not known. Of a repeated instruction it is one element, the one at today's
    registers. Vector elements that a mask leaves out are not accessed. ``execute`` is the fetch at the address in a
    register that a call or jump goes to.
    """

    kind: Literal["read", "write", "execute"]
    operand: MemoryOperand
    size: int | None = None


@record
class Assignment:
    """What an instruction puts where: `source` plus `offset` into a register (64-bit name) or 8 bytes of memory.

    With `is_address` the source is the address of a memory operand, not what is there. `sets_flags`: the result of the
    last comparison is lost.
    """

    target: str | MemoryOperand
    source: Operand
    offset: int = 0
    is_address: bool = False
    sets_flags: bool = False


@record
class Instruction:
    """One instruction.

    `text` has one space between mnemonic and operands, and neither symbols nor comments. `mnemonic` is without prefixes
    and the same for all versions of GDB. `operands` are in the order of the text, the destination last; empty where
    the text of one is not understood. `symbol` is what GDB prints between ``<`` and ``>``, the name of a branch's
    target or of an address relative to the program counter.
    """

    address: int
    size: int
    text: str
    mnemonic: str
    operands: tuple[Operand, ...] = ()
    prefixes: tuple[str, ...] = ()
    symbol: str | None = None

    @property
    def next_address(self) -> int:
        """Where the next instruction begins."""
        return self.address + self.size

    @property
    def memory(self) -> MemoryOperand | None:
        """The first operand that is written as memory, accessed or not."""
        return next((operand for operand in self.operands if isinstance(operand, MemoryOperand)), None)

    @property
    def call_target(self) -> int | None:
        """The address that a direct call calls, which may be a stub of the procedure linkage table."""
        return self._direct_target() if self.is_call else None

    @property
    def jump_target(self) -> int | None:
        """The address that a direct jump leads to."""
        return self._direct_target() if self.is_jump else None

    def _direct_target(self) -> int | None:
        return self.operands[0] if self.operands and isinstance(self.operands[0], int) else None

    @property
    def is_call(self) -> bool:
        """Whether it is a call, direct or not."""
        raise NotImplementedError

    @property
    def is_jump(self) -> bool:
        """Whether it is a jump, conditional or not, direct or not."""
        raise NotImplementedError

    @property
    def is_return(self) -> bool:
        """Whether it returns."""
        raise NotImplementedError

    @property
    def is_filler(self) -> bool:
        """Whether it does nothing but fill up space."""
        raise NotImplementedError

    @property
    def is_trap(self) -> bool:
        """Whether it is the one that compilers put where code must not get to."""
        raise NotImplementedError

    @property
    def is_undefined(self) -> bool:
        """Whether the bytes are no instruction."""
        raise NotImplementedError

    @property
    def is_signed_division(self) -> bool:
        """Whether it divides signed integers."""
        raise NotImplementedError

    @property
    def falls_through(self) -> bool:
        """Whether the next instruction may run after it; a call of a function known not to return does not."""
        raise NotImplementedError

    @property
    def aligned(self) -> int | None:
        """To how many bytes the memory operand must be aligned, or the processor refuses the instruction."""
        raise NotImplementedError

    def part(self, operand: Operand) -> tuple[str, int] | None:
        """The whole register and the number of bits of an operand that is the lowest part of a general register."""
        raise NotImplementedError

    def written(self) -> frozenset[str]:
        """The general registers that it changes, whole; for a call those that the ABI lets it change."""
        raise NotImplementedError

    def accesses(self) -> tuple[Access, ...]:
        """Accesses to memory, explicit and implicit, in the order in which they are made."""
        raise NotImplementedError

    def assignments(self) -> tuple[Assignment, ...] | None:
        """The assignments of one that only moves whole registers, words or their addresses; None for all others."""
        raise NotImplementedError

    @property
    def comparison(self) -> tuple[Operand, Operand | None] | None:
        """What it compares with what; the latter is None unless it is a whole register or word."""
        raise NotImplementedError

    @property
    def condition(self) -> Literal["equal", "unequal", "above", "not above"] | None:
        """On what a jump depends, for some of them."""
        raise NotImplementedError


@record
class Origin:
    """Where the value of a register came from.

    ``loaded`` from memory, the ``result`` of a call, an ``argument`` (1 to 6) of the function, a ``constant`` (its
    `value`; an address relative to the program counter is one), or ``computed`` by an instruction, with `operand` that
    of one that computes an address.

    `certain` is False where another way through the code may have brought another value. `copies` are the registers
    that it was moved through, the latest move first. `bits` is how many of the lowest bits came through: fewer than
    were asked for after a move of a part, so that a pointer that was cut to 32 bits shows.

    `operand_unchanged` says that the registers of `operand` have the same values still, so that its address can be
    worked out from the registers at the place of use. The memory may have changed.
    """

    kind: Literal["loaded", "result", "argument", "constant", "computed"]
    instruction: Instruction | None = None
    operand: MemoryOperand | None = None
    argument: int | None = None
    value: int | None = None
    certain: bool = True
    copies: tuple[str, ...] = ()
    bits: int = 64
    operand_unchanged: bool = False


class Unwinder(Protocol):
    """Unwinds the threads of one stop of one target."""

    def unwind(self, registers: Mapping[str, int], limit: int) -> list[tuple[int, int]]:
        """(program counter, stack pointer) of at most `limit` frames, innermost first.

        :param registers: of the innermost frame.
        :raises GdbextError: some frame needs the debugger's unwinder, or the stack is not readable.
        """
        ...

    def function_range(self, pc: int) -> tuple[int, int] | None:
        """Start and end of the function that covers a program counter (of a caller: less one); no symbols needed."""
        ...


class Architecture(Protocol):
    """A processor with Linux's and the C compilers' conventions for it."""

    #: As ``Target.architecture`` has it, as people write it, and in ELF headers.
    NAME: str
    TITLE: str
    ELF_MACHINE: int

    # -- registers -------------------------------------------------------------------------------------------

    PROGRAM_COUNTER: str
    STACK_POINTER: str
    THREAD_POINTER: str
    #: The result of a function; before a system call its number.
    RESULT: str
    #: The first arguments that are integers or pointers, in order.
    ARGUMENTS: tuple[str, ...]
    #: General registers that a call preserves, without the stack pointer, and those that it may change.
    CALLEE_SAVED: tuple[str, ...]
    CALLER_SAVED: frozenset[str]
    #: All general registers with the stack pointer, and all registers that one frame has.
    GENERAL: tuple[str, ...]
    FRAME: tuple[str, ...]
    #: Those that are read of every thread.
    AT_STOP: tuple[str, ...]
    #: Those of them that hold no data of the program.
    NOT_DATA: frozenset[str]

    def is_canonical(self, address: int) -> bool:
        """Whether the processor accepts an address."""
        ...

    def core_registers(self, state: bytes) -> dict[str, int]:
        """The registers in a ``struct elf_prstatus``; empty if it is that of another processor."""
        ...

    # -- system calls and signals ----------------------------------------------------------------------------

    def system_call_names(self) -> Mapping[int, str]:
        """The names of the system calls by their numbers."""
        ...

    def system_call(self, registers: Mapping[str, int]) -> Syscall | None:
        """The system call that a thread is in, from the registers of its newest frame; None if it is in none."""
        ...

    def is_at_system_call(self, memory: Memory, pc: int) -> bool:
        """Whether a thread is about to make a system call, or has just left one."""
        ...

    def interrupted_call(self, memory: Memory, registers: Mapping[str, int], native: Sequence[tuple[int, int]],
                         code_up_to: Callable[[int], Sequence[Instruction]]) -> Mapping[str, int]:
        """The registers that show in which system call a thread was that a signal interrupted, or that it was in none.

        :param registers: that the handler will return to.
        :param native: (program counter, stack pointer) of the frames from there on.
        :param code_up_to: gives the instructions of the function up to a program counter.
        """
        ...

    def is_signal_return(self, memory: Memory, pc: int) -> bool:
        """Whether a signal handler returns to this program counter."""
        ...

    def read_signal_frame(self, memory: Memory, sp: int, number: int | None = None) -> SignalFrame | None:
        """Decode what the kernel left below a handler; None if the signal is not known.

        :param sp: the stack pointer of the frame that the handler returns to.
        :param number: of the signal, where it is known.
        :raises MemoryUnreadable: the stack is not readable.
        """
        ...

    def read_interrupted(self, memory: Memory, sp: int) -> dict[str, int]:
        """The registers that a thread had when the kernel called a handler; see `read_signal_frame`."""
        ...

    def is_own_breakpoint(self, memory: Memory, pc: int) -> bool:
        """Whether a thread that stopped at a program counter has executed a breakpoint instruction of its program."""
        ...

    # -- code ------------------------------------------------------------------------------------------------

    def unwinder(self, memory: Memory, modules: Sequence[Module], /) -> Unwinder:
        """The unwinder of a target with these modules."""
        ...

    def called(self, memory: Memory, return_address: int) -> int | None:
        """The function that the call before a return address calls; None if that is not known."""
        ...

    def behind_stub(self, memory: Memory, address: int) -> int:
        """Where a stub of the procedure linkage table leads; any other address is returned as it is.

        :raises MemoryUnreadable: the code, or the slot that it jumps through, is not readable.
        """
        ...

    def iter_calls(self, memory: Memory, start: int, end: int) -> Iterator[tuple[int, int]]:
        """(return address, address called) of each direct call in a range of code, stubs not followed.

        Instructions are not decoded, so bytes that only look like a call come too.

        :raises MemoryUnreadable: the code is not readable.
        """
        ...

    def iter_branches(self, code: bytes, start: int) -> Iterator[tuple[int, int, bool, bool]]:
        """(next address, address, whether that is a slot with the target, whether it is a call) of each call and jump.

        Instructions are not decoded, so bytes that only look like a branch come too.

        :param start: the address of the code.
        """
        ...

    def constant_arguments(self, memory: Memory, start: int, call: int) -> frozenset[int]:
        """The constants that may be the first argument of the call before a return address.

        :param start: where the function begins.
        :raises MemoryUnreadable: the code is not readable.
        """
        ...

    def loaded_arguments(self, memory: Memory, start: int, end: int) -> Sequence[tuple[int, int]]:
        """(index of the argument, address) of each constant address that code loads for a call, in order.

        :raises MemoryUnreadable: the code is not readable.
        """
        ...

    def returned_address(self, memory: Memory, function: int) -> int | None:
        """The constant address that a function returns, or that of the variable that it returns; else None."""
        ...

    def members_behind_jump(self, memory: Memory, function: int) -> frozenset[int] | None:
        """Offsets in its first argument that a function uses to which this one only jumps; None if not so."""
        ...

    def loaded_thread_local(self, memory: Memory, function: int) -> tuple[int, int, int] | None:
        """(distance from the thread pointer, offset in the variable, size) of what a function loads first."""
        ...

    def parse(self, address: int, size: int, text: str) -> Instruction:
        """An instruction from the debugger's text, with or without symbols and comment."""
        ...

    def origin(self, instructions: Sequence[Instruction], index: int, register: str) -> Origin | None:
        """Where the value came from that a register has when an instruction begins; None if it is not known.

        :param instructions: of one function, from its beginning.
        """
        ...
