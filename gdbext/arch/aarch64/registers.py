"""Registers of arm64, by the debugger's names, their use in the ABI, and the addresses that they contain.

`syscallno` is none of the processor's: it is the number of the system call that a thread is in, and `syscall_result`
its result if it has returned. See `system_calls.at_stop`.

Source: AAPCS64 2023Q3 section 6.1.1 (registers that a call preserves, of arguments and results); Linux 6.1
arch/arm64/include/asm/ptrace.h (struct user_pt_regs).
"""

from __future__ import annotations

PROGRAM_COUNTER, STACK_POINTER, THREAD_POINTER, RESULT = "pc", "sp", "tpidr", "x0"
FRAME_POINTER, LINK, CALL, CALL_RESULT = "x29", "x30", "syscallno", "syscall_result"
RESULTS: tuple[str, ...] = (RESULT, "x1")
ARGUMENTS: tuple[str, ...] = ("x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7")
CALLEE_SAVED: tuple[str, ...] = tuple(f"x{number}" for number in range(19, 30))
CALLER_SAVED = frozenset((*(f"x{number}" for number in range(19)), LINK))
GENERAL: tuple[str, ...] = (*(f"x{number}" for number in range(31)), "sp")
FRAME: tuple[str, ...] = ("pc", *GENERAL, "tpidr")
CALL_ARGUMENTS = ("x0", "x1", "x2", "x3", "x4", "x5")
AT_STOP: tuple[str, ...] = ("pc", "sp", FRAME_POINTER, LINK, *CALL_ARGUMENTS, "x8", "tpidr", CALL, CALL_RESULT)
NOT_DATA = frozenset({"pc", "sp", "tpidr", CALL, CALL_RESULT, LINK})
#: The registers that /proc shows of a sleeping thread.
OF_SLEEPERS = frozenset({"pc", "sp", CALL, *CALL_ARGUMENTS})
#: The highest byte of an address, and the bit that it repeats.
_TAG, _SIGN_BIT = 0xFF << 56, 1 << 55


def without_tag(address: int) -> int:
    """An address without its highest byte, which the processor ignores in accesses to data: it repeats bit 55.

    Source: Arm ARM (DDI 0487) D8.8 (address tagging).
    """
    return address & ~_TAG & (1 << 64) - 1 | (_TAG if address & _SIGN_BIT else 0)
