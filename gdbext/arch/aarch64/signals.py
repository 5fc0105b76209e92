"""Decodes the frame that the kernel puts on a stack of arm64 for a signal handler.

C structures: ``struct rt_sigframe`` with ``siginfo_t`` and ``struct ucontext``, and ``struct sigcontext`` of the
kernel's interface to programs, which never change.
"""

from __future__ import annotations

import struct

from gdbext.arch.aarch64.system_calls import SVC
from gdbext.arch.protocol import SignalFrame
from gdbext.errors import MemoryUnreadable
from gdbext.inferior.protocol import Memory, SignalInfo
from gdbext.inferior.signals import (
    CORE_SIGNALS,
    FAULT_SIGNALS,
    SEGV_ACCERR,
    SEGV_MAPERR,
    SIGINFO_SIZE,
    SIGRTMAX,
    SIGSEGV,
    code_name,
    decode_siginfo,
)

# the code that a handler returns to: mov x8, #139 (rt_sigreturn); svc #0
_RESTORER = b"\x68\x11\x80\xd2" + SVC
# after siginfo: struct ucontext: uc_flags, uc_link, uc_stack, uc_sigmask with its padding, aligned to 16; then struct
# sigcontext: fault_address, regs, sp, pc, pstate (Linux 6.1 arch/arm64/include/uapi/asm/sigcontext.h, ucontext.h)
_CONTEXT = struct.Struct("<Q31QQQQ")
_CONTEXT_AT = SIGINFO_SIZE + 176
_NAMES = (*(f"x{number}" for number in range(31)), "sp", "pc")
#: Records behind the registers: magic number and size; that of the exception has its syndrome.
_RECORDS_AT, _RECORD, _ESR_MAGIC, _MAX_RECORDS = _CONTEXT_AT + 288, struct.Struct("<II"), 0x45535201, 8
#: Exception classes, and bits of the syndrome (Arm ARM D17.2.37, ESR_EL1).
_FETCH, _DATA, _WRITE, _PERMISSION, _TRANSLATION = 0x20, 0x24, 1 << 6, 0b0011, 0b0001


def is_signal_return(memory: Memory, pc: int) -> bool:
    """Whether a signal handler returns to this program counter (the kernel's ``__kernel_rt_sigreturn``)."""
    try:
        return memory.read(pc, len(_RESTORER)) == _RESTORER
    except MemoryUnreadable:
        return False


def read_signal_frame(memory: Memory, sp: int, number: int | None = None) -> SignalFrame | None:
    """Decode the ``struct rt_sigframe`` below a handler.

    Source: Linux 6.1 arch/arm64/kernel/signal.c (setup_rt_frame): ``info`` is filled only for a handler that was
    installed with SA_SIGINFO. Without it the processor's exception identifies the signal.

    :param sp: the stack pointer of the frame of ``__kernel_rt_sigreturn``.
    :param number: of the signal, if known.
    :return: None if the signal is not known.
    :raises MemoryUnreadable: the stack is not readable.
    """
    registers = read_interrupted(memory, sp)
    fault_address, syndrome = _CONTEXT.unpack(memory.read(sp + _CONTEXT_AT, _CONTEXT.size))[0], _syndrome(memory, sp)
    filled = decode_siginfo(memory.read(sp, SIGINFO_SIZE))
    info: SignalInfo | None = None
    is_filled = 0 < filled.number <= SIGRTMAX and code_name(filled.number, filled.code) is not None
    if is_filled and filled.number in ((number,) if number is not None else CORE_SIGNALS):
        info = filled
    elif number in FAULT_SIGNALS:
        info = _from_exception(number, syndrome, fault_address)
    elif number is not None and not is_filled:
        info = SignalInfo(number, None, None)
    if info is None:
        return None
    access = None
    if syndrome is not None and info.address is not None and syndrome >> 26 in (_FETCH, _DATA):
        access = "execute" if syndrome >> 26 == _FETCH else "write" if syndrome & _WRITE else "read"
    return SignalFrame(info, registers, access)


def handled_signal(memory: Memory, sp: int) -> int | None:
    """The number of the signal that a running handler handles; None if it was installed without SA_SIGINFO.

    :param sp: as for `read_signal_frame`.
    :raises MemoryUnreadable: the stack is not readable.
    """
    filled = decode_siginfo(memory.read(sp, SIGINFO_SIZE))
    is_filled = 0 < filled.number <= SIGRTMAX and code_name(filled.number, filled.code) is not None
    return filled.number if is_filled else None


def read_interrupted(memory: Memory, sp: int) -> dict[str, int]:
    """The registers that a thread had when the kernel called a handler; see `read_signal_frame`."""
    return dict(zip(_NAMES, _CONTEXT.unpack(memory.read(sp + _CONTEXT_AT, _CONTEXT.size))[1:34]))


def _syndrome(memory: Memory, sp: int) -> int | None:
    """The syndrome of the exception that made a signal; None if there was none."""
    at = sp + _RECORDS_AT
    for _ in range(_MAX_RECORDS):
        magic, size = _RECORD.unpack(memory.read(at, _RECORD.size))
        if magic == _ESR_MAGIC:
            return int.from_bytes(memory.read(at + _RECORD.size, 8), "little")
        if not magic or not 0 < size <= 4096:
            return None
        at += size
    return None


def _from_exception(number: int | None, syndrome: int | None, fault_address: int) -> SignalInfo | None:
    """The signal that a fault of memory makes (Linux 6.1 arch/arm64/mm/fault.c)."""
    if number != SIGSEGV or syndrome is None or syndrome >> 26 not in (_FETCH, _DATA):
        return None
    status = syndrome >> 2 & 0b1111
    if status not in (_PERMISSION, _TRANSLATION):
        return None
    return SignalInfo(number, SEGV_ACCERR if status == _PERMISSION else SEGV_MAPERR, fault_address)
