"""x86-64 with Linux; implements `protocol.Architecture`."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence

from gdbext.arch.protocol import Change, Instruction, Machine, Origin
from gdbext.arch.x86_64.calls import (
    behind_stub,
    called,
    constant_arguments,
    iter_branches,
    iter_calls,
    iter_loads,
    loaded_arguments,
    may_exchange,
    may_return,
    unresolved_slot,
)
from gdbext.arch.x86_64.extensions import extension
from gdbext.arch.x86_64.patterns import loaded_thread_local, members_behind_jump, returned_address
from gdbext.arch.x86_64.registers import (
    ARGUMENTS,
    AT_STOP,
    CALLEE_SAVED,
    CALLER_SAVED,
    FRAME,
    GENERAL,
    NOT_DATA,
    OF_SLEEPERS,
    PROGRAM_COUNTER,
    RESULT,
    RESULTS,
    STACK_POINTER,
    THREAD_POINTER,
)
from gdbext.arch.x86_64.signals import handled_signal, is_signal_return, read_interrupted, read_signal_frame
from gdbext.arch.x86_64.system_calls import (
    interrupted_call,
    is_at_system_call,
    sleeping_registers,
    system_call,
    system_call_names,
)
from gdbext.arch.x86_64.unwind import Unwinder as unwinder
from gdbext.elf.headers import EM_X86_64
from gdbext.errors import GdbextError
from gdbext.inferior.cache import read_u64
from gdbext.inferior.protocol import Memory

__all__ = [
    "ARGUMENTS", "AT_STOP", "CALLEE_SAVED", "CALLER_SAVED", "DESCRIPTOR_IS_BELOW", "ELF_MACHINE", "FRAME", "GENERAL",
    "HIGHEST_ADDRESS", "MAX_INSTRUCTION", "NAME", "NOT_DATA", "OF_SLEEPERS", "PROGRAM_COUNTER", "PROVES",
    "REGISTER_PREFIX", "RESULT", "RESULTS", "STACK_POINTER", "THREAD_POINTER", "at_stop", "behind_stub", "called",
    "change", "constant_arguments", "core_registers", "disassemble", "extension", "handled_signal",
    "interrupted_call", "is_at_system_call", "is_canonical", "is_own_breakpoint", "is_signal_return", "iter_branches",
    "iter_calls", "iter_loads", "loaded_arguments", "loaded_thread_local", "machine", "may_exchange", "may_return",
    "members_behind_jump", "origin", "parse", "read_interrupted", "read_signal_frame", "returned_address",
    "sleeping_registers", "system_call", "system_call_names", "unresolved_slot", "unwinder", "user_registers",
    "with_return", "without_tag"]

NAME, ELF_MACHINE = "x86_64", EM_X86_64
#: Source: Intel SDM volume 2, section 2.3.11.
MAX_INSTRUCTION = 15
_HALF = 1 << 47
#: The size of a return address in bytes.
_WORD = 8
HIGHEST_ADDRESS = _HALF
DESCRIPTOR_IS_BELOW, PROVES = False, True
REGISTER_PREFIX = "%"
_INT3 = b"\xcc"
# struct elf_prstatus: signals and times, with pr_pid in between, then pr_reg and pr_fpvalid; struct user_regs_struct
# (Linux 6.1 include/linux/elfcore.h, arch/x86/include/asm/user_64.h)
_PRSTATUS = struct.Struct("<112x216s8x")
_REGS = struct.Struct("<27Q")
_USER_REGS = ("r15", "r14", "r13", "r12", "rbp", "rbx", "r11", "r10", "r9", "r8", "rax", "rcx", "rdx", "rsi", "rdi",
              "orig_rax", "rip", "cs", "eflags", "rsp", "ss", "fs_base", "gs_base", "ds", "es", "fs", "gs")


def is_canonical(address: int) -> bool:
    """Whether the processor accepts an address (without five-level paging)."""
    return not _HALF <= address < (1 << 64) - _HALF


def without_tag(address: int) -> int:
    """An address without the bits that the processor ignores in accesses to data: on x86-64 the address itself."""
    return address


def core_registers(state: bytes, thread_area: bytes = b"") -> dict[str, int]:
    """The registers in a ``struct elf_prstatus``; empty if it is that of another processor.

    :param thread_area: unused: the thread pointer is among the registers.
    """
    return user_registers(_PRSTATUS.unpack(state)[0]) if len(state) == _PRSTATUS.size else {}


def user_registers(data: bytes, thread_area: bytes = b"") -> dict[str, int]:
    """The registers in a ``struct user_regs_struct``; empty if it is that of another processor."""
    return dict(zip(_USER_REGS, _REGS.unpack(data))) if len(data) == _REGS.size else {}


def at_stop(memory: Memory, registers: Mapping[str, int]) -> Mapping[str, int]:
    """The registers of a stopped thread, with all that `system_call` needs: on x86-64 the registers themselves."""
    return registers


def is_own_breakpoint(memory: Memory, pc: int) -> bool:
    """Whether a thread that stopped at a program counter has executed a breakpoint instruction of its program."""
    try:
        return memory.read(pc - 1, 1) == _INT3
    except GdbextError:
        return False


def with_return(memory: Memory, registers: Mapping[str, int]) -> dict[str, int]:
    """The registers of the caller of a function that has run no instruction yet.

    :raises MemoryUnreadable: the stack, which has the return address at its top, is not readable.
    """
    sp = registers[STACK_POINTER]
    return {**registers, PROGRAM_COUNTER: read_u64(memory, sp), STACK_POINTER: sp + _WORD}


# the modules that decode instructions are imported on first use: by crashes, and for locks that record no holder

def disassemble(code: bytes, address: int, name: Callable[[int], str | None]) -> Sequence[tuple[int, int, str]]:
    """See `gdbext.arch.x86_64.disassembler.disassemble`."""
    from gdbext.arch.x86_64.disassembler import disassemble as made

    return made(code, address, name)


def parse(address: int, size: int, text: str) -> Instruction:
    """Parse an instruction from the debugger's text, with or without symbols and comment."""
    from gdbext.arch.x86_64 import instructions

    return instructions.parse(address, size, text)


def machine(memory: Memory, registers: Mapping[str, int]) -> Machine:
    """A machine to run code on known values: those of registers, and of the target's memory."""
    from gdbext.arch.x86_64.machines import Machine

    return Machine(memory, registers)


def change(instructions: Sequence[Instruction], source: str, target: str, bits: int,
           ones: Mapping[str, int]) -> Change | None:
    """What straight code has done to one register's value to make that of another one; None if unknown."""
    from gdbext.arch.x86_64 import origins

    return origins.change(instructions, source, target, bits, ones)


def origin(instructions: Sequence[Instruction], index: int, register: str) -> Origin | None:
    """Find where the value of a register before an instruction came from; None if unknown."""
    from gdbext.arch.x86_64.origins import origin

    return origin(instructions, index, register)
