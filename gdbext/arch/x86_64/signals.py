"""Signals of Linux: their names and codes, and what the kernel leaves on a stack for a handler.

C structures: ``siginfo_t``, ``struct ucontext`` and ``struct sigcontext_64`` of the kernel's interface to programs,
which never change.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from gdbext.errors import MemoryUnreadable
from gdbext.inferior.protocol import Memory, SignalInfo
from gdbext.record import record

SIGQUIT, SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV = 3, 4, 5, 6, 7, 8, 11
SIGXCPU, SIGXFSZ, SIGSYS = 24, 25, 31
_SIGRTMAX = 64

#: Signals that make a core by default, by number (Linux 6.1 arch/x86/include/uapi/asm/signal.h, x86-64).
CORE_SIGNALS: Mapping[int, str] = {
    SIGQUIT: "SIGQUIT", SIGILL: "SIGILL", SIGTRAP: "SIGTRAP", SIGABRT: "SIGABRT", SIGBUS: "SIGBUS", SIGFPE: "SIGFPE",
    SIGSEGV: "SIGSEGV", SIGXCPU: "SIGXCPU", SIGXFSZ: "SIGXFSZ", SIGSYS: "SIGSYS",
}
#: Those that an instruction causes; `si_code` above 0 says how.
FAULT_SIGNALS = frozenset((SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGSEGV, SIGSYS))

#: `si_code`: who sent it, where no instruction caused it (Linux 6.1 include/uapi/asm-generic/siginfo.h).
SI_USER, SI_KERNEL, SI_QUEUE, SI_TKILL = 0, 0x80, -1, -6
_CODES = {SI_USER: "SI_USER", SI_KERNEL: "SI_KERNEL", SI_QUEUE: "SI_QUEUE", -2: "SI_TIMER", -3: "SI_MESGQ",
          -4: "SI_ASYNCIO", -5: "SI_SIGIO", SI_TKILL: "SI_TKILL"}
SEGV_MAPERR, SEGV_ACCERR, SEGV_PKUERR = 1, 2, 4
BUS_ADRALN, BUS_ADRERR = 1, 2
FPE_INTDIV = 1
_ILL_ILLOPN = 2
_CODES_OF: Mapping[int, tuple[str, ...]] = {
    SIGILL: ("ILL_ILLOPC", "ILL_ILLOPN", "ILL_ILLADR", "ILL_ILLTRP", "ILL_PRVOPC", "ILL_PRVREG", "ILL_COPROC",
             "ILL_BADSTK"),
    SIGTRAP: ("TRAP_BRKPT", "TRAP_TRACE", "TRAP_BRANCH", "TRAP_HWBKPT"),
    SIGBUS: ("BUS_ADRALN", "BUS_ADRERR", "BUS_OBJERR", "BUS_MCEERR_AR", "BUS_MCEERR_AO"),
    SIGFPE: ("FPE_INTDIV", "FPE_INTOVF", "FPE_FLTDIV", "FPE_FLTOVF", "FPE_FLTUND", "FPE_FLTRES", "FPE_FLTINV",
             "FPE_FLTSUB"),
    SIGSEGV: ("SEGV_MAPERR", "SEGV_ACCERR", "SEGV_BNDERR", "SEGV_PKUERR", "SEGV_ACCADI", "SEGV_ADIDERR",
              "SEGV_ADIPERR", "SEGV_MTEAERR", "SEGV_MTESERR", "SEGV_CPERR"),
    SIGSYS: ("SYS_SECCOMP", "SYS_USER_DISPATCH"),
}

_SIGINFO = struct.Struct("<iii4xQ")  # siginfo_t: si_signo, si_errno, si_code, then _sigfault.si_addr
_SENDER = struct.Struct("<iI")  # _kill: si_pid, si_uid
_SIGINFO_SIZE = 128

# what a handler returns to: mov $__NR_rt_sigreturn, %rax (or %eax); syscall
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


def code_name(number: int, code: int | None) -> str | None:
    """The name of an `si_code`, None for one that is not known."""
    if code is None:
        return None
    if code in _CODES:
        return _CODES[code]
    names = _CODES_OF.get(number, ())
    return names[code - 1] if 1 <= code <= len(names) else None


def decode_siginfo(data: bytes) -> SignalInfo:
    """Decode a ``siginfo_t``.

    Source: Linux 6.1 include/uapi/asm-generic/siginfo.h.

    :param data: at least its first 24 bytes.
    """
    number, _, code, address = _SIGINFO.unpack_from(data)
    if number in FAULT_SIGNALS and code > 0:
        return SignalInfo(number, code, address)
    pid, uid = _SENDER.unpack_from(data, _SIGINFO.size - 8)
    return SignalInfo(number, code, None, pid, uid)


@record
class SignalFrame:
    """What the kernel left on a stack when it called a handler: the signal, and the registers that it interrupted.

    `access` is ``read``, ``write`` or ``execute`` where it was a page fault.
    """

    info: SignalInfo
    registers: Mapping[str, int]
    access: str | None


def is_restorer(memory: Memory, pc: int) -> bool:
    """Whether a handler of a signal returns to this program counter (glibc's ``__restore_rt``)."""
    try:
        code = memory.read(pc, 9)
    except MemoryUnreadable:
        return False
    return any(code.startswith(restorer) for restorer in _RESTORERS)


def read_signal_frame(memory: Memory, sp: int, number: int | None = None) -> SignalFrame | None:
    """Decode the ``struct rt_sigframe`` below a handler.

    Source: Linux 6.1 arch/x86/include/asm/sigframe.h (pretcode, uc, info), arch/x86/kernel/signal.c: ``info`` is filled
    only for a handler that was installed with SA_SIGINFO. Without it the processor's exception tells what it was.

    :param sp: the stack pointer of the frame of ``__restore_rt``, where ``uc`` begins.
    :param number: of the signal, where it is known.
    :return: None if what signal it was is not to be told.
    :raises MemoryUnreadable: the stack is not readable.
    """
    data = memory.read(sp, _UCONTEXT.size + _SIGINFO_SIZE)
    words = _UCONTEXT.unpack_from(data)
    registers = _registers(words)
    error, trap, fault_address = words[24], words[25], words[27]
    filled = decode_siginfo(data[_UCONTEXT.size:])
    info: SignalInfo | None = None
    is_filled = 0 < filled.number <= _SIGRTMAX and code_name(filled.number, filled.code) is not None
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


def read_interrupted(memory: Memory, sp: int) -> dict[str, int]:
    """The registers that a thread had when the kernel called a handler; see `read_signal_frame`.

    :raises MemoryUnreadable: the stack is not readable.
    """
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
        return SignalInfo(number, FPE_INTDIV if number == SIGFPE else _ILL_ILLOPN, pc)
    return None
