"""The interface of an architecture: registers, system calls, signal frames, code and its instructions.

The packages `arch.x86_64` and `arch.aarch64` implement `Architecture` as modules. Registers have the debugger's names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Literal, Protocol, Union

from gdbext.errors import GdbextError
from gdbext.inferior.proc.threads import SystemCall
from gdbext.inferior.protocol import Memory, Module, SignalInfo
from gdbext.record import record


@record
class Syscall:
    """The system call that a thread is in.

    `blocked` is false if the call has returned already, with `result`. `name` is None for ``restart_syscall``: the
    kernel restarts a timed wait after a stop, and only the arguments of the original call are left.
    """

    number: int
    name: str | None
    arguments: tuple[int, ...]
    blocked: bool
    result: int = 0


@record
class SignalFrame:
    """The kernel's record of a signal on a stack: the signal, and the registers that it interrupted.

    `access` is ``read``, ``write`` or ``execute`` if the signal was a page fault.
    """

    info: SignalInfo
    registers: Mapping[str, int]
    access: str | None


@record
class MemoryOperand:
    """``segment:displacement(base,index,scale)``, with register names as printed.

    `displacement` is signed. An absolute address has neither `base` nor `index`. `index` may be a vector register
    (gather and scatter), and then there is more than one address.
    """

    segment: str | None = None
    displacement: int = 0
    base: str | None = None
    index: str | None = None
    scale: int = 1

    @property
    def base_register(self) -> str | None:
        """The whole register of `base`, or of `index` if there is no base; None for the program counter."""
        return next(iter(self.address_registers), None)

    @property
    def text(self) -> str:
        """The operand as the debugger prints it."""
        raise NotImplementedError

    @property
    def address_registers(self) -> Sequence[str]:
        """The whole registers of `base` and `index`, each once, without the program counter."""
        raise NotImplementedError

    @property
    def registers(self) -> frozenset[str]:
        """All registers that the address depends on, without the program counter."""
        raise NotImplementedError

    def simple(self, next_address: int) -> tuple[str | None, int] | None:
        """(register, distance) whose sum is the address, with None for a constant address; None for other sums."""
        raise NotImplementedError

    def address(self, registers: Mapping[str, int], next_address: int) -> int | None:
        """The effective address, which may be non-canonical; None if a register is unknown."""
        raise NotImplementedError


#: A register by name, an immediate or the target of a branch, or memory.
Operand = Union[str, int, MemoryOperand]


@record
class Access:
    """One access to memory; an instruction that reads, modifies and writes has two.

    `size` is in bytes, None if unknown. A repeated instruction has the access to its current element. Vector elements
    that a mask excludes are not accessed. ``execute`` is the fetch at the address in a register that a call or jump
    goes to.
    """

    kind: Literal["read", "write", "execute"]
    operand: MemoryOperand
    size: int | None = None


ExchangeKind = Literal["exchanges", "compares", "adds", "computes"]


@record
class Exchange:
    """An atomic change of memory of `size` bytes, by the lowest parts of registers.

    The whole register `stored` has the new value, or what is added if `added` is None; `part` is the name of its part.
    The register `old` gets the old value. An exchange that ``compares`` changes memory only if it is equal to `old`
    before, and sets the result of a comparison as ``equal`` then. One that ``computes`` makes the new value in another
    way.
    """

    kind: ExchangeKind
    operand: MemoryOperand
    size: int
    stored: str | None = None
    old: str | None = None
    added: int | None = None
    part: str | None = None


@record
class Assignment:
    """A move of `source` plus `offset` into a register (64-bit name) or 8 bytes of memory.

    With `is_address` the source is the address of a memory operand instead of its contents. `sets_flags`: the
    instruction overwrites the result of the last comparison.
    """

    target: str | MemoryOperand
    source: Operand
    offset: int = 0
    is_address: bool = False
    sets_flags: bool = False


#: ``filler`` has no effect, compilers put ``trap`` where code must not get to, ``undefined`` is not an instruction.
Kind = Literal["call", "jump", "return", "filler", "trap", "undefined", "signed division", "other"]
Condition = Literal["equal", "unequal", "above", "not above"]


@record
class Instruction:
    """One instruction.

    `text` has one space between mnemonic and operands, and neither symbols nor comments. `mnemonic` is without prefixes
    and the same for all versions of GDB. `operands` are in the order of the text, the destination last; empty if
    one is not understood. `symbol` is the name that GDB prints between ``<`` and ``>``, of a branch's target or of an
    address relative to the program counter. `falls_through`: the next instruction may run after it, which is false
    for a call of a function that does not return. `condition` is known of some conditional jumps.
    """

    address: int
    size: int
    text: str
    mnemonic: str
    operands: tuple[Operand, ...] = ()
    prefixes: tuple[str, ...] = ()
    symbol: str | None = None
    kind: Kind = "other"
    falls_through: bool = True
    condition: Condition | None = None

    @property
    def next_address(self) -> int:
        """The address of the next instruction."""
        return self.address + self.size

    @property
    def memory(self) -> MemoryOperand | None:
        """The first operand that is written as memory, accessed or not."""
        return next((operand for operand in self.operands if isinstance(operand, MemoryOperand)), None)

    @property
    def call_target(self) -> int | None:
        """The target of a direct call, which may be a stub of the procedure linkage table."""
        return self._direct_target() if self.kind == "call" else None

    @property
    def jump_target(self) -> int | None:
        """The target of a direct jump."""
        return self._direct_target() if self.kind == "jump" else None

    def _direct_target(self) -> int | None:
        return self.operands[0] if self.operands and isinstance(self.operands[0], int) else None

    @property
    def alignment(self) -> int | None:
        """The alignment in bytes without which the processor refuses to access the memory operand."""
        raise NotImplementedError

    @cached_property
    def written(self) -> frozenset[str]:
        """The general registers that it changes, whole; for a call those that the ABI lets it change."""
        return frozenset(self._iter_changes())

    @property
    def read(self) -> frozenset[str]:
        """The general registers of which it may read all bits, those that its operands name."""
        raise NotImplementedError

    @property
    def comparison(self) -> tuple[Operand, Operand | None] | None:
        """The two values that it compares; the second is None unless it is a whole register or word."""
        raise NotImplementedError

    @property
    def tests_lowest_bit(self) -> str | None:
        """The whole register of which it compares only the lowest bit with zero."""
        raise NotImplementedError

    @property
    def stored_condition(self) -> tuple[str, Condition] | None:
        """(whole register, condition) of one that stores in the lowest byte whether the operands were (un)equal."""
        raise NotImplementedError

    @property
    def narrow_copy(self) -> tuple[str, str] | None:
        """(source, target), whole registers, of one that copies the lower 32 bits and clears the upper ones."""
        raise NotImplementedError

    @property
    def exchange(self) -> Exchange | None:
        """The atomic change of memory that it makes; None for all others."""
        raise NotImplementedError

    def part(self, operand: Operand) -> tuple[str, int] | None:
        """The whole register and the number of bits of an operand that is the lowest part of a general register."""
        raise NotImplementedError

    def accesses(self) -> tuple[Access, ...]:
        """Accesses to memory, explicit and implicit, in the order in which they are made."""
        return self._known_accesses

    def assignments(self) -> tuple[Assignment, ...] | None:
        """The assignments of one that only moves whole registers, words or their addresses; None for all others."""
        return self._known_assignments

    @cached_property
    def _known_accesses(self) -> tuple[Access, ...]:
        return tuple(self._iter_accesses())

    @cached_property
    def _known_assignments(self) -> tuple[Assignment, ...] | None:
        return self._find_assignments()

    # what is found once, by the rules of the processor

    def _iter_changes(self) -> Iterator[str]:
        raise NotImplementedError

    def _iter_accesses(self) -> Iterator[Access]:
        raise NotImplementedError

    def _find_assignments(self) -> tuple[Assignment, ...] | None:
        raise NotImplementedError


@record
class Origin:
    """The origin of a register's value.

    ``loaded`` from memory, the ``result`` of a call, an ``argument`` (1 to 6) of the function, a ``constant`` (its
    `value`; an address relative to the program counter is one), or ``computed`` by an instruction, with the `operand`
    of one that computes an address.

    `certain` is False if another path through the code may have set another value. `operand_unchanged`: the registers
    of `operand` still have the same values, so its address can be computed from the registers at the place of use.
    The memory may have changed.
    """

    kind: Literal["loaded", "result", "argument", "constant", "computed"]
    instruction: Instruction | None = None
    operand: MemoryOperand | None = None
    argument: int | None = None
    value: int | None = None
    certain: bool = True
    operand_unchanged: bool = False


@record
class Change:
    """How one value was made from another: by the addition of `added`, or by setting the bits in `ones`."""

    added: int = 0
    ones: int = 0


@record
class ExceptionTable:
    """The table by which a function handles exceptions: its address, and that of the routine that reads it.

    `function` is the start of the code to which the addresses in the table are relative.
    """

    address: int
    personality: int
    function: int


class Machine(Protocol):
    """Code that runs on known values; see `arch.x86_64.machines.Machine`."""

    registers: dict[str, int]

    def copy(self) -> Machine: ...
    def lowest(self, register: str, bits: int) -> int | None: ...
    def read(self, address: int, size: int) -> int | None: ...
    def lose_memory(self) -> None: ...
    def step(self, instruction: Instruction, /) -> None: ...
    def is_taken(self, jump: Instruction, /) -> bool | None: ...
    def target(self, instruction: Instruction, /) -> int | None: ...
    def enter(self, return_address: int) -> None: ...
    def leave(self) -> int | None: ...
    def skip_call(self) -> None: ...


class Unwinder(Protocol):
    """Unwinds the threads of one stop of one target; see `arch.x86_64.unwind.Unwinder`."""

    def unwind(self, registers: Mapping[str, int], limit: int) -> list[tuple[int, int]]: ...
    def walk(self, registers: Mapping[str, int],
             limit: int) -> tuple[list[tuple[int, int]], GdbextError | None]: ...
    def frame_registers(self, registers: Mapping[str, int], index: int) -> dict[str, int]: ...
    def function_range(self, pc: int) -> tuple[int, int] | None: ...
    def starts_function(self, address: int) -> bool: ...
    def exception_table(self, pc: int) -> ExceptionTable | None: ...


class Architecture(Protocol):
    """A processor with the conventions of Linux and of C compilers; the functions are documented in `arch.x86_64`."""

    #: As `Target.architecture` has it, and in ELF headers.
    NAME: str
    ELF_MACHINE: int

    # -- registers -------------------------------------------------------------------------------------------

    PROGRAM_COUNTER: str
    STACK_POINTER: str
    THREAD_POINTER: str
    OF_SLEEPERS: frozenset[str]
    #: The result of a function.
    RESULT: str
    #: The registers of a result that has two words.
    RESULTS: tuple[str, ...]
    #: The first arguments that are integers or pointers, in order.
    ARGUMENTS: tuple[str, ...]
    #: General registers that a call preserves, without the stack pointer, and those that it may change.
    CALLEE_SAVED: tuple[str, ...]
    CALLER_SAVED: frozenset[str]
    #: All general registers with the stack pointer, and all registers that one frame has.
    GENERAL: tuple[str, ...]
    FRAME: tuple[str, ...]
    #: The registers that every snapshot reads of every thread, and those of them that contain no data of the program.
    AT_STOP: tuple[str, ...]
    NOT_DATA: frozenset[str]
    #: What the debugger writes before the name of a register in code.
    REGISTER_PREFIX: str
    #: A program's memory is below this address.
    HIGHEST_ADDRESS: int
    #: Whether the thread pointer is the end of the C library's thread descriptor, or else its start. Thread-local
    #: memory of libraries loaded at start-up is on the other side of the thread pointer.
    DESCRIPTOR_IS_BELOW: bool
    #: Whether code proves which locks a function holds.
    PROVES: bool

    def is_canonical(self, address: int) -> bool: ...
    def without_tag(self, address: int) -> int: ...
    def core_registers(self, state: bytes, thread_area: bytes = b"") -> dict[str, int]: ...
    def user_registers(self, data: bytes, thread_area: bytes = b"") -> dict[str, int]: ...
    def at_stop(self, memory: Memory, registers: Mapping[str, int]) -> Mapping[str, int]: ...

    # -- system calls and signals ----------------------------------------------------------------------------

    def system_call_names(self) -> Mapping[int, str]: ...
    def system_call(self, registers: Mapping[str, int]) -> Syscall | None: ...
    def sleeping_registers(self, call: SystemCall) -> dict[str, int]: ...
    def is_at_system_call(self, memory: Memory, pc: int) -> bool: ...
    def interrupted_call(self, memory: Memory, registers: Mapping[str, int], native: Sequence[tuple[int, int]],
                         code_up_to: Callable[[int], Sequence[Instruction]]) -> Mapping[str, int]: ...
    def extension(self, data: bytes) -> str | None: ...
    def is_signal_return(self, memory: Memory, pc: int) -> bool: ...
    def handled_signal(self, memory: Memory, sp: int) -> int | None: ...
    def read_signal_frame(self, memory: Memory, sp: int, number: int | None = None) -> SignalFrame | None: ...
    def read_interrupted(self, memory: Memory, sp: int) -> dict[str, int]: ...
    def is_own_breakpoint(self, memory: Memory, pc: int) -> bool: ...
    def with_return(self, memory: Memory, registers: Mapping[str, int]) -> Mapping[str, int]: ...

    # -- code ------------------------------------------------------------------------------------------------

    def unwinder(self, memory: Memory, modules: Sequence[Module], /) -> Unwinder: ...
    def called(self, memory: Memory, return_address: int) -> int | None: ...
    def behind_stub(self, memory: Memory, address: int) -> int: ...
    def unresolved_slot(self, memory: Memory, address: int) -> int | None: ...
    def iter_calls(self, memory: Memory, start: int, end: int) -> Iterator[tuple[int, int]]: ...
    def iter_branches(self, code: bytes, start: int) -> Iterator[tuple[int, int, bool, bool]]: ...
    def iter_loads(self, code: bytes, start: int) -> Iterator[int]: ...
    def may_exchange(self, code: bytes, computes: bool) -> bool: ...
    def may_return(self, code: bytes) -> bool: ...
    def constant_arguments(self, memory: Memory, start: int, call: int) -> frozenset[int]: ...
    def loaded_arguments(self, memory: Memory, start: int, end: int) -> Sequence[tuple[int, int]]: ...
    def returned_address(self, memory: Memory, function: int) -> int | None: ...
    def members_behind_jump(self, memory: Memory, function: int) -> frozenset[int] | None: ...
    def loaded_thread_local(self, memory: Memory, function: int) -> tuple[int, int, int] | None: ...
    def parse(self, address: int, size: int, text: str) -> Instruction: ...
    #: Bytes of the longest instruction.
    MAX_INSTRUCTION: int
    def disassemble(self, code: bytes, address: int,
                    name: Callable[[int], str | None], /) -> Sequence[tuple[int, int, str]]: ...
    def machine(self, memory: Memory, registers: Mapping[str, int]) -> Machine: ...
    def origin(self, instructions: Sequence[Instruction], index: int, register: str) -> Origin | None: ...
    def change(self, instructions: Sequence[Instruction], source: str, target: str, bits: int,
               ones: Mapping[str, int]) -> Change | None: ...
