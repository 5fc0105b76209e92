"""The bytes that the kernel writes on the stack for a signal handler."""

from __future__ import annotations

import struct

#: Registers in the order of ``struct sigcontext_64``.
SAVED = ("r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "rdi", "rsi", "rbp", "rbx", "rdx", "rax", "rcx", "rsp",
         "rip")


def fault_info(number: int, code: int, address: int) -> bytes:
    """A ``siginfo_t`` of 128 bytes with ``_sigfault.si_addr``."""
    return struct.pack("<iii4xQ", number, 0, code, address).ljust(128, b"\0")


def sent_info(number: int, code: int, pid: int, uid: int) -> bytes:
    """A ``siginfo_t`` of 128 bytes with ``_kill.si_pid`` and ``_kill.si_uid``."""
    return struct.pack("<iii4xiI", number, 0, code, pid, uid).ljust(128, b"\0")


def signal_frame(info: bytes, trap: int = 14, error: int = 4, touched: int = 0x1111, **registers: int) -> bytes:
    """A ``struct rt_sigframe`` without its pretcode: ``struct ucontext`` (304 bytes on x86-64) and the info."""
    saved = struct.pack("<17Q", *(registers.get(name, i + 1) for i, name in enumerate(SAVED)))
    # eflags; cs, gs, fs, ss; err, trapno, oldmask, cr2; fpstate, reserved1[8]; uc_sigmask
    context = saved + struct.pack("<Q4H4QQ64xQ", 0x10246, 0x33, 0, 0, 0x2B, error, trap, 0, touched, 0, 0)
    frame = struct.pack("<QQ24x", 7, 0) + context
    assert len(frame) == 304
    return frame + info
