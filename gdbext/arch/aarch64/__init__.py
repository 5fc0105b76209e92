"""arm64 with Linux; implements `protocol.Architecture`. Which locks code holds is not proven yet."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence

from gdbext.arch.aarch64.calls import (
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
from gdbext.arch.aarch64.patterns import loaded_thread_local, members_behind_jump, returned_address
from gdbext.arch.aarch64.registers import (
    ARGUMENTS,
    AT_STOP,
    CALLEE_SAVED,
    CALLER_SAVED,
    FRAME,
    GENERAL,
    LINK,
    NOT_DATA,
    OF_SLEEPERS,
    PROGRAM_COUNTER,
    RESULT,
    RESULTS,
    STACK_POINTER,
    THREAD_POINTER,
    without_tag,
)
from gdbext.arch.aarch64.signals import handled_signal, is_signal_return, read_interrupted, read_signal_frame
from gdbext.arch.aarch64.system_calls import (
    at_stop,
    interrupted_call,
    is_at_system_call,
    sleeping_registers,
    system_call,
    system_call_names,
)
from gdbext.arch.aarch64.unwind import Unwinder as unwinder
from gdbext.arch.protocol import Change, Instruction, Machine, Origin
from gdbext.elf.headers import EM_AARCH64
from gdbext.errors import GdbextError
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

NAME, ELF_MACHINE = "aarch64", EM_AARCH64
MAX_INSTRUCTION = 4
PROVES = False
REGISTER_PREFIX = ""
HIGHEST_ADDRESS = 1 << 48
DESCRIPTOR_IS_BELOW = True
# struct elf_prstatus: signals and times, with pr_pid in between, then pr_reg and pr_fpvalid; struct user_pt_regs
# (Linux 6.1 include/linux/elfcore.h, arch/arm64/include/uapi/asm/ptrace.h)
_PRSTATUS = struct.Struct("<112x272s8x")
_REGS = struct.Struct("<34Q")
_USER_REGS = (*GENERAL, PROGRAM_COUNTER, "cpsr")
_TLS_SIZE = 8
#: brk with any number.
_BRK, _BRK_MASK = 0xD4200000, 0xFFE0001F
#: The bits of an address that must all be the same. The processor ignores those above them in accesses to data.
_SIGN = 0xFF << 48


def is_canonical(address: int) -> bool:
    """Whether the processor accepts an address (of 48 bits, with a tag in the highest byte)."""
    return address & _SIGN in (0, _SIGN)


def core_registers(state: bytes, thread_area: bytes = b"") -> dict[str, int]:
    """The registers in a ``struct elf_prstatus``; empty if it is that of another processor.

    :param thread_area: the contents of the note NT_ARM_TLS, whose first word is the thread pointer.
    """
    return user_registers(_PRSTATUS.unpack(state)[0], thread_area) if len(state) == _PRSTATUS.size else {}


def user_registers(data: bytes, thread_area: bytes = b"") -> dict[str, int]:
    """The registers in a ``struct user_pt_regs``; empty if it is that of another processor."""
    if len(data) != _REGS.size:
        return {}
    found = dict(zip(_USER_REGS, _REGS.unpack(data)))
    if len(thread_area) >= _TLS_SIZE:
        found[THREAD_POINTER] = int.from_bytes(thread_area[:_TLS_SIZE], "little")
    return found


def is_own_breakpoint(memory: Memory, pc: int) -> bool:
    """Whether a thread that stopped at a program counter has executed a breakpoint instruction of its program."""
    try:
        return int.from_bytes(memory.read(pc, 4), "little") & _BRK_MASK == _BRK
    except GdbextError:
        return False


def with_return(memory: Memory, registers: Mapping[str, int]) -> dict[str, int]:
    """The registers of the caller of a function that has run no instruction yet; see `arch.x86_64.with_return`."""
    return {**registers, PROGRAM_COUNTER: registers.get(LINK, 0)}


def extension(data: bytes) -> str | None:
    """No instruction has a prefix."""
    return None


# the modules that decode instructions are imported on first use, by crashes

def disassemble(code: bytes, address: int, name: Callable[[int], str | None]) -> Sequence[tuple[int, int, str]]:
    """See `gdbext.arch.aarch64.disassembler.disassemble`."""
    from gdbext.arch.aarch64.disassembler import disassemble as made

    return made(code, address, name)


def parse(address: int, size: int, text: str) -> Instruction:
    """Parse an instruction from the debugger's text, with or without symbols and comment."""
    from gdbext.arch.aarch64 import instructions

    return instructions.parse(address, size, text)


def machine(memory: Memory, registers: Mapping[str, int]) -> Machine:
    """:raises GdbextError: always."""
    raise GdbextError("the machine code of arm64 is not run on known values")


def change(instructions: Sequence[Instruction], source: str, target: str, bits: int,
           ones: Mapping[str, int]) -> Change | None:
    """Not known."""
    return None


def origin(instructions: Sequence[Instruction], index: int, register: str) -> Origin | None:
    """Find where the value of a register before an instruction came from; None if unknown."""
    from gdbext.arch.aarch64.origins import origin

    return origin(instructions, index, register)
