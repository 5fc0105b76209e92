"""Registers of x86-64, by the debugger's names, and their use in the ABI.

Source: x86-64 psABI 1.0 section 3.2.1 (registers that a call preserves) and 3.2.3 (registers of arguments and results).
"""

from __future__ import annotations

PROGRAM_COUNTER, STACK_POINTER, THREAD_POINTER, RESULT = "rip", "rsp", "fs_base", "rax"
RESULTS: tuple[str, ...] = (RESULT, "rdx")
ARGUMENTS: tuple[str, ...] = ("rdi", "rsi", "rdx", "rcx", "r8", "r9")
CALLEE_SAVED: tuple[str, ...] = ("rbx", "rbp", "r12", "r13", "r14", "r15")
CALLER_SAVED = frozenset({"rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11"})
GENERAL: tuple[str, ...] = ("rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp", "rsp",
                            "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15")
FRAME: tuple[str, ...] = ("rip", *GENERAL, "fs_base")
AT_STOP: tuple[str, ...] = ("rip", "rsp", "rbp", "orig_rax", "rax", "rdi", "rsi", "rdx", "r10", "r8", "r9",
                            "fs_base")
NOT_DATA = frozenset({"rip", "rsp", "orig_rax", "fs_base"})
#: The registers that /proc shows of a sleeping thread.
OF_SLEEPERS = frozenset({"rip", "rsp", "orig_rax", "rax", "rdi", "rsi", "rdx", "r10", "r8", "r9"})
