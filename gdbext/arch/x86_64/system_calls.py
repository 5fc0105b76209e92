"""System calls of x86-64: the one that a thread is in, also if a signal interrupted it.

Sources: Linux 6.1 arch/x86/entry/calling.h, kernel/signal.c (restart codes). The numbers are in `system_calls.json`,
made from the kernel's header.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Mapping, Sequence

from gdbext.arch.protocol import Instruction, Syscall
from gdbext.errors import GdbextError
from gdbext.inferior.cache import read_u64
from gdbext.inferior.proc.threads import SystemCall
from gdbext.inferior.protocol import Memory

_ARGUMENTS = ("rdi", "rsi", "rdx", "r10", "r8", "r9")
# The result in rax of a thread that was interrupted in a blocking call: -ERESTARTSYS, ...NOINTR,
# ...NOHAND, ..._RESTARTBLOCK, and -EINTR for calls that are not restarted
_INTERRUPTED = {-512, -513, -514, -516, -4}
_RESTARTED = -512 & (1 << 64) - 1
_NO_CALL = (1 << 64) - 1
_SYSCALL = 0x050F  # the instruction's two bytes
# the code of cancellable calls: mov %r11, 8(%rsp); syscall (glibc 2.41 __syscall_cancel_arch,
# sysdeps/unix/sysv/linux/x86_64/syscall_cancel.S), and of a single thread mov N(%rsp), %rax; syscall
# (nptl/cancellation.c, __internal_syscall_cancel, which calls the other)
_CANCELLABLE, _LOADED = b"\x4c\x89\x5c\x24\x08\x0f\x05", b"\x48\x8b\x44\x24"


@functools.cache
def system_call_names() -> Mapping[int, str]:
    """The names of the system calls by their numbers."""
    path = os.path.join(os.path.dirname(os.path.realpath(__file__)), "system_calls.json")
    with open(path, encoding="utf-8") as file:
        return {int(number): name for number, name in json.load(file)["names"].items()}


def system_call(registers: Mapping[str, int]) -> Syscall | None:
    """The system call that a thread is in, from the registers of its newest frame; None if it is in none."""
    number = registers.get("orig_rax", _NO_CALL)
    if number >= 1 << 31:
        return None
    name = system_call_names().get(number)
    rax = registers.get("rax", 0)
    signed = rax - (1 << 64) if rax >> 63 else rax
    blocked = signed in _INTERRUPTED
    return Syscall(number, name if name != "restart_syscall" else None,
                   tuple(registers.get(register, 0) for register in _ARGUMENTS), blocked, 0 if blocked else signed)


def sleeping_registers(call: SystemCall) -> dict[str, int]:
    """The registers of a thread that sleeps in the kernel, as a stop would show them.

    :param call: with a negative number if the thread is in no system call, as after a page fault.
    """
    registers = {"rip": call.program_counter, "rsp": call.stack_pointer, "orig_rax": _NO_CALL}
    if call.number >= 0:
        registers.update(zip(_ARGUMENTS, call.arguments), orig_rax=call.number, rax=_RESTARTED)
    return registers


def is_at_system_call(memory: Memory, pc: int) -> bool:
    """Whether a thread is about to make a system call, or has just left one."""
    return _is_syscall(memory, pc) or _is_syscall(memory, pc - 2)


def _is_syscall(memory: Memory, address: int) -> bool:
    try:
        return read_u64(memory, address) & 0xFFFF == _SYSCALL
    except GdbextError:
        return False


def interrupted_call(memory: Memory, registers: Mapping[str, int], native: Sequence[tuple[int, int]],
                     code_up_to: Callable[[int], Sequence[Instruction]]) -> dict[str, int]:
    """The registers that identify the system call, if any, that a signal interrupted.

    :param registers: that the handler will return to.
    :param native: (program counter, stack pointer) of the frames from there on.
    :param code_up_to: gives the instructions of the function up to a program counter.

    If the call restarts after the handler, a register still has its number. If it fails with EINTR or has ended, the
    code before it sets the number.
    """
    pc = registers["rip"]
    if _is_syscall(memory, pc):
        again = {"orig_rax": registers["rax"], "rax": _RESTARTED}
        return again if system_call(again) is not None else {"orig_rax": _NO_CALL}
    number = _number_before(memory, pc, registers, native, code_up_to) if _is_syscall(memory, pc - 2) else None
    return {"orig_rax": number if number is not None and number in system_call_names() else _NO_CALL}


def _number_before(memory: Memory, pc: int, registers: Mapping[str, int], native: Sequence[tuple[int, int]],
                   code_up_to: Callable[[int], Sequence[Instruction]]) -> int | None:
    try:
        last = memory.read(pc - len(_CANCELLABLE), len(_CANCELLABLE))
        # no register has the number any more: it is the seventh argument, the first on the stack
        if last == _CANCELLABLE and len(native) > 2:
            return read_u64(memory, native[2][1])
        if last.startswith(_LOADED):
            return read_u64(memory, registers["rsp"] + last[len(_LOADED)])
    except GdbextError:
        return None
    # imported here since nothing else in a snapshot of a hang needs it
    from gdbext.arch.x86_64.origins import origin

    before = code_up_to(pc - 2)
    number = origin(before, len(before) - 1, "eax") if before else None
    return number.value if number is not None and number.kind == "constant" and number.certain else None
