"""A thread that died in a handler of a signal: what it did when the signal came.

Handlers such as those of faulthandler and of Abseil print something and send the signal again, so that the process ends
as it would have without them. A program that hung and was made to leave a core by `kill -ABRT` then seems to run. What
it hung in is outside of the handler's frames, with the registers that the kernel saved for the return from it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from gdbext.arch.x86_64.signals import CORE_SIGNALS, SI_TKILL, is_restorer, read_interrupted
from gdbext.errors import GdbextError
from gdbext.glibc.futex import decode_syscall
from gdbext.inferior.cache import read_u64
from gdbext.inferior.protocol import Memory, Target
from gdbext.layout.select import syscall_names
from gdbext.model.reasons import because
from gdbext.threads.code import Code
from gdbext.threads.findings import Findings
from gdbext.threads.threads import SeenThread, Threads, decode_futex

#: How many frames a handler may have.
MAX_HANDLER = 64
# raise() may block signals as it sends one, which then comes when it lets them in again (glibc 2.31
# sysdeps/unix/sysv/linux/raise.c)
_SENDS = frozenset(("kill", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "rt_sigprocmask"))
_SYSCALL = 0x050F  # the instruction's two bytes
# where cancellable calls are made: mov %r11, 8(%rsp); syscall (glibc 2.41 __syscall_cancel_arch,
# sysdeps/unix/sysv/linux/x86_64/syscall_cancel.S), and of a single thread mov N(%rsp), %rax; syscall
# (nptl/cancellation.c, __internal_syscall_cancel, which calls the other)
_CANCELLABLE, _LOADED = b"\x4c\x89\x5c\x24\x08\x0f\x05", b"\x48\x8b\x44\x24"
_NO_CALL = 0xFFFFFFFFFFFFFFFF
#: What the kernel has in rax of a thread whose call it will begin anew: -ERESTARTSYS.
_RESTARTED = 0xFFFFFFFFFFFFFE00


class Interrupted(NamedTuple):
    """Where a thread was: its registers, as a debugger would have shown them then, `orig_rax` too.

    `handler` is how many of its frames are the handler's, `signal` the number of the signal that it sent.
    """

    registers: Mapping[str, int]
    handler: int
    signal: int


def take_back(target: Target, code: Code, threads: Threads, findings: Findings) -> Threads:
    """The threads, those that died in a handler as they were when its signal came."""
    changed = []
    for seen in threads:
        interrupted = find_interrupted(target, code, seen) if seen.unavailable is None else None
        if interrupted is None:
            continue
        native, depth, registers = seen.native(code), interrupted.handler, interrupted.registers
        call = decode_syscall(registers)
        changed.append(replace(seen, registers=registers, call=call, futex=decode_futex(target.memory, call),
                               is_taken_back=True, handler=native[:depth], frames=native[depth:]))
        findings.notes.append(because("died-in-handler", thread=seen.number, signal=CORE_SIGNALS[interrupted.signal]))
    return threads.replaced(changed)


def find_interrupted(target: Target, code: Code, seen: SeenThread) -> Interrupted | None:
    """What a thread did when a signal came from whose handler it sends one that has ended the program."""
    returned = seen.registers.get("orig_rax", _NO_CALL) == _NO_CALL
    # a debugger is asked for the signal of few threads only: it has to switch to each
    if not (_is_in_call(target, seen.registers["rip"]) if returned else is_sending(seen.registers)):
        return None
    info = target.signal(seen.ref)
    if info is None or info.number not in CORE_SIGNALS:
        return None
    native = seen.native(code)
    if returned:
        # one that was blocked in the handler that sent it came when that had returned
        call = _call(target, code, seen.registers, native) if info.code == SI_TKILL else {"orig_rax": _NO_CALL}
        return Interrupted({**seen.registers, **call}, 0, info.number) if call["orig_rax"] != _NO_CALL else None
    for depth, sp in handlers(target.memory, native):
        try:
            registers = read_interrupted(target.memory, sp)
        except GdbextError:
            return None
        call = _call(target, code, registers, native[depth:])
        return Interrupted({**registers, "fs_base": seen.registers.get("fs_base", 0), **call}, depth, info.number)
    return None


def handlers(memory: Memory, native: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Of each handler of a signal that runs how many frames lie before what it interrupted, and where that is saved.

    :param native: (program counter, stack pointer) of a thread's frames, innermost first.
    """
    for index, (pc, sp) in enumerate(native[:MAX_HANDLER]):
        if is_restorer(memory, pc):
            yield index + 1, sp


def is_sending(registers: Mapping[str, int]) -> bool:
    """Whether a thread is in a call that sends a signal."""
    return syscall_names("x86_64").get(registers.get("orig_rax", _NO_CALL)) in _SENDS


def was_sending(target: Target, code: Code, registers: Mapping[str, int]) -> bool:
    """Whether a thread was interrupted as it sent a signal, which then was the one that came.

    :param registers: that a handler will return to.
    """
    return is_sending(_call(target, code, registers, ()))


def _call(target: Target, code: Code, registers: Mapping[str, int],
          native: Sequence[tuple[int, int]]) -> dict[str, int]:
    """The registers that tell of a system call, of a thread with those that a handler will return to.

    A call that is begun anew after the handler has its number still; of one that then fails with EINTR, or has ended,
    the code tells which it was.

    :param native: its frames from there on.
    """
    none, rip = {"orig_rax": _NO_CALL}, registers["rip"]
    if _is_syscall(target, rip):
        again = {**registers, "orig_rax": registers["rax"], "rax": _RESTARTED}
        return {name: again[name] for name in ("orig_rax", "rax")} if decode_syscall(again) is not None else none
    if not _is_syscall(target, rip - 2):
        return none
    try:
        last = target.memory.read(rip - len(_CANCELLABLE), len(_CANCELLABLE))
        # no register has the number any more; it is the seventh argument, the first on the stack
        if last == _CANCELLABLE and len(native) > 2:
            return _known(read_u64(target.memory, native[2][1]))
        if last.startswith(_LOADED):
            return _known(read_u64(target.memory, registers["rsp"] + last[len(_LOADED)]))
    except GdbextError:
        return none
    # decoding of instructions is not needed for anything else of a hang
    from gdbext.arch.x86_64.instructions import origin
    from gdbext.threads.function_code import code_up_to

    before = code_up_to(target, code, rip - 2)
    number = origin(before, len(before) - 1, "eax") if before else None
    if number is None or number.kind != "constant" or number.value is None or not number.certain:
        return none
    return _known(number.value)


def _known(number: int) -> dict[str, int]:
    return {"orig_rax": number if number in syscall_names("x86_64") else _NO_CALL}


def _is_in_call(target: Target, rip: int) -> bool:
    """Whether a thread is about to make a system call, or has just left one."""
    return _is_syscall(target, rip) or _is_syscall(target, rip - 2)


def _is_syscall(target: Target, address: int) -> bool:
    try:
        return read_u64(target.memory, address) & 0xFFFF == _SYSCALL
    except GdbextError:
        return False
