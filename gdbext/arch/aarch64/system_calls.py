"""System calls of arm64: the one that a thread is in, also if a signal interrupted it.

Before a thread stops in a call that the kernel will restart, the kernel sets the program counter back to the `svc`
instruction, and the first argument again (Linux 6.1 arch/arm64/kernel/signal.c, do_signal). So the registers of a
thread that waits in a call are those of a thread that is about to make it. A call that is not restarted has its result
in x0, and the program counter is after the instruction; x8 still has the number.

Source: Linux 6.1 arch/arm64/kernel/signal.c, include/asm/ptrace.h. The numbers are in `system_calls.json`, made from
the kernel's header.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Mapping, Sequence

from gdbext.arch.aarch64.registers import CALL, CALL_ARGUMENTS, CALL_RESULT, CALLEE_SAVED
from gdbext.arch.aarch64.words import copy, words_of
from gdbext.arch.protocol import Instruction, Syscall
from gdbext.errors import GdbextError
from gdbext.inferior.proc.threads import SystemCall
from gdbext.inferior.protocol import Memory

#: svc #0
SVC = b"\x01\0\0\xd4"
_INTERRUPTED = -4  # -EINTR
_EINTR, _LOST = (1 << 64) + _INTERRUPTED, (1 << 64) - 1
#: How many instructions before a call are searched.
_BEFORE = 12
_SIZE = 4


@functools.cache
def system_call_names() -> Mapping[int, str]:
    """The names of the system calls by their numbers."""
    path = os.path.join(os.path.dirname(os.path.realpath(__file__)), "system_calls.json")
    with open(path, encoding="utf-8") as file:
        return {int(number): name for number, name in json.load(file)["names"].items()}


def at_stop(memory: Memory, registers: Mapping[str, int]) -> Mapping[str, int]:
    """The registers of a stopped thread with the system call that it is in, which the code at its place shows."""
    pc, number = registers.get("pc", 0), registers.get("x8")
    if number is None or number not in system_call_names():
        return registers
    if _is_svc(memory, pc):
        return {**registers, CALL: number}
    if _is_svc(memory, pc - _SIZE):
        first = _first_argument(memory, pc - _SIZE, registers) if registers.get("x0") == _EINTR else None
        if first is not None:
            return {**registers, "x0": first, CALL: number}
        return {**registers, CALL: number, CALL_RESULT: registers.get("x0", 0)}
    return registers


def _first_argument(memory: Memory, at: int, registers: Mapping[str, int]) -> int | None:
    """The first argument of a call that a signal ended, which its result has replaced; None if it is not known.

    Functions that make the call in a loop keep the argument in a register that calls preserve, and copy it before.

    :param at: address of the `svc` instruction.
    """
    try:
        words = [*words_of(memory.read(at - _BEFORE * _SIZE, _BEFORE * _SIZE))]
    except GdbextError:
        return None
    written = set()
    for word in reversed(words):
        copied = copy(word)
        if copied is not None and copied[0] == 0:
            source = f"x{copied[1]}"
            return registers.get(source) if source in CALLEE_SAVED and copied[1] not in written else None
        # an instruction that may jump, or writes x0 in another way; others have the register that they write there
        if word >> 26 & 7 == 5 or word & 31 == 0:
            return None
        written.add(word & 31)
    return None


def system_call(registers: Mapping[str, int]) -> Syscall | None:
    """The system call that a thread is in, from the registers of its newest frame; None if it is in none.

    The first argument of one that has returned is lost: it is -1 here, which is no descriptor and no address.
    """
    number = registers.get(CALL)
    if number is None:
        return None
    name = system_call_names().get(number)
    result = registers.get(CALL_RESULT)
    signed = result - (1 << 64) if result is not None and result >> 63 else result
    first = registers.get("x0", 0) if result is None else _LOST
    arguments = (first, *(registers.get(register, 0) for register in CALL_ARGUMENTS[1:]))
    blocked = signed is None or signed == _INTERRUPTED
    return Syscall(number, name if name != "restart_syscall" else None, arguments, blocked,
                   0 if blocked or signed is None else signed)


def sleeping_registers(call: SystemCall) -> dict[str, int]:
    """The registers of a thread that sleeps in the kernel.

    :param call: with a negative number if the thread is in no system call, as after a page fault.
    """
    registers = {"pc": call.program_counter, "sp": call.stack_pointer}
    if call.number >= 0:
        registers.update(zip(CALL_ARGUMENTS, call.arguments))
        registers[CALL] = call.number
    return registers


def is_at_system_call(memory: Memory, pc: int) -> bool:
    """Whether a thread is about to make a system call, or has just left one."""
    return _is_svc(memory, pc) or _is_svc(memory, pc - _SIZE)


def _is_svc(memory: Memory, address: int) -> bool:
    try:
        return memory.read(address, _SIZE) == SVC
    except GdbextError:
        return False


def interrupted_call(memory: Memory, registers: Mapping[str, int], native: Sequence[tuple[int, int]],
                     code_up_to: Callable[[int], Sequence[Instruction]]) -> dict[str, int]:
    """The registers that identify the system call, if any, that a signal interrupted.

    :param registers: that the handler will return to; the number of the call is still there.
    """
    found = at_stop(memory, registers)
    return {name: found[name] for name in (CALL, CALL_RESULT, "x0") if name in found and CALL in found}
