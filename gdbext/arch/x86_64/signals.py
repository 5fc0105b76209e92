"""Decodes the frame that the kernel puts on a stack of x86-64 for a signal handler.

C structures: ``struct ucontext`` and ``struct sigcontext_64`` of the kernel's interface to programs, which never
change.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from gdbext.arch.protocol import SignalFrame
from gdbext.errors import MemoryUnreadable
from gdbext.inferior.protocol import Memory, SignalInfo
from gdbext.inferior.signals import (
    BUS_ADRERR,
    CORE_SIGNALS,
    FAULT_SIGNALS,
    FPE_INTDIV,
    ILL_ILLOPN,
    SEGV_ACCERR,
    SEGV_MAPERR,
    SI_KERNEL,
    SIGBUS,
    SIGFPE,
    SIGILL,
    SIGINFO_SIZE,
    SIGRTMAX,
    SIGSEGV,
    code_name,
    decode_siginfo,
)

# the code that a handler returns to: mov $__NR_rt_sigreturn, %rax (or %eax); syscall
_RESTORERS = (b"\x48\xc7\xc0\x0f\x00\x00\x00\x0f\x05", b"\xb8\x0f\x00\x00\x00\x0f\x05")
# struct ucontext: uc_flags, uc_link, uc_stack; then struct sigcontext_64 (Linux 6.1
# arch/x86/include/uapi/asm/sigcontext.h), in this order; fpstate, eight reserved words and uc_sigmask follow
_UCONTEXT = struct.Struct("<QQ24x17QQHHHHQQQQ8x64x8x")
_REGISTERS = ("r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "rdi", "rsi", "rbp", "rbx", "rdx", "rax", "rcx",
              "rsp", "rip")
#: Bits of a page fault's error code (Intel SDM volume 3, 4.7).
_PRESENT, _WRITE, _FETCH = 1, 2, 16
#: Numbers of exceptions (Intel SDM volume 3, 6.3.1).
_DIVIDE, _INVALID_OPCODE, _STACK_SEGMENT, _GENERAL_PROTECTION, _PAGE_FAULT = 0, 6, 12, 13, 14


def is_signal_return(memory: Memory, pc: int) -> bool:
    """Whether a signal handler returns to this program counter (glibc's ``__restore_rt``)."""
    try:
        code = memory.read(pc, 9)
    except MemoryUnreadable:
        return False
    return any(code.startswith(restorer) for restorer in _RESTORERS)


def read_signal_frame(memory: Memory, sp: int, number: int | None = None) -> SignalFrame | None:
    """Decode the ``struct rt_sigframe`` below a handler.

    Source: Linux 6.1 arch/x86/include/asm/sigframe.h (pretcode, uc, info), arch/x86/kernel/signal.c: ``info`` is filled
    only for a handler that was installed with SA_SIGINFO. Without it the processor's exception identifies the signal.

    :param sp: the stack pointer of the frame of ``__restore_rt``, which is the address of ``uc``.
    :param number: of the signal, if known.
    :return: None if the signal is not known.
    :raises MemoryUnreadable: the stack is not readable.
    """
    data = memory.read(sp, _UCONTEXT.size + SIGINFO_SIZE)
    words = _UCONTEXT.unpack_from(data)
    registers = _registers(words)
    error, trap, fault_address = words[24], words[25], words[27]
    filled = decode_siginfo(data[_UCONTEXT.size:])
    info: SignalInfo | None = None
    is_filled = 0 < filled.number <= SIGRTMAX and code_name(filled.number, filled.code) is not None
    if is_filled and filled.number in ((number,) if number is not None else CORE_SIGNALS):
        info = filled
    elif number in FAULT_SIGNALS:
        info = _from_exception(number, trap, error, fault_address, registers["rip"])
    elif number is not None and not is_filled:
        info = SignalInfo(number, None, None)
    if info is None:
        return None
    access = None
    if trap == _PAGE_FAULT and info.address is not None:
        access = "execute" if error & _FETCH else "write" if error & _WRITE else "read"
    return SignalFrame(info, registers, access)


def handled_signal(memory: Memory, sp: int) -> int | None:
    """The number of the signal that a running handler handles; None if it was installed without SA_SIGINFO.

    :param sp: as for `read_signal_frame`.
    :raises MemoryUnreadable: the stack is not readable.
    """
    filled = decode_siginfo(memory.read(sp + _UCONTEXT.size, SIGINFO_SIZE))
    is_filled = 0 < filled.number <= SIGRTMAX and code_name(filled.number, filled.code) is not None
    return filled.number if is_filled else None


def read_interrupted(memory: Memory, sp: int) -> dict[str, int]:
    """The registers that a thread had when the kernel called a handler; see `read_signal_frame`."""
    return _registers(_UCONTEXT.unpack(memory.read(sp, _UCONTEXT.size)))


def _registers(words: Sequence[int]) -> dict[str, int]:
    return dict(zip(_REGISTERS, words[2:19]))


def _from_exception(number: int, trap: int, error: int, fault_address: int, pc: int) -> SignalInfo | None:
    """The signal that an exception of the processor makes (Linux 6.1 arch/x86/kernel/traps.c, mm/fault.c)."""
    if trap == _PAGE_FAULT and number == SIGSEGV:
        return SignalInfo(number, SEGV_ACCERR if error & _PRESENT else SEGV_MAPERR, fault_address)
    if trap == _PAGE_FAULT and number == SIGBUS:
        return SignalInfo(number, BUS_ADRERR, fault_address)
    if trap in (_GENERAL_PROTECTION, _STACK_SEGMENT) and number in (SIGSEGV, SIGBUS):
        return SignalInfo(number, SI_KERNEL, 0)
    if (trap, number) in ((_DIVIDE, SIGFPE), (_INVALID_OPCODE, SIGILL)):
        return SignalInfo(number, FPE_INTDIV if number == SIGFPE else ILL_ILLOPN, pc)
    return None
