"""Threads that died in a signal handler: their state when the signal arrived.

Handlers such as those of faulthandler and of Abseil print something and send the signal again, so that the process
ends as it would have without them. A program that hung and was killed with `kill -ABRT` then seems to be running. The
call it hung in is below the handler's frames, with the registers that the kernel saved for the return from the handler.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from gdbext.arch.protocol import Architecture, Syscall
from gdbext.errors import GdbextError
from gdbext.inferior.protocol import Memory, Target
from gdbext.inferior.signals import CORE_SIGNALS, SI_TKILL
from gdbext.model.reasons import because
from gdbext.threads.code import Code
from gdbext.threads.findings import Findings
from gdbext.threads.threads import SeenThread, Threads, decode_futex

#: Most frames of a handler.
MAX_HANDLER = 64
# raise() may block signals while it sends one; the signal arrives when raise() unblocks them (glibc 2.31
# sysdeps/unix/sysv/linux/raise.c)
_SENDS = frozenset(("kill", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "rt_sigprocmask"))


class Interrupted(NamedTuple):
    """The state of a thread when a signal arrived: the registers that a debugger would have shown then.

    `handler` is the number of the handler's frames, `signal` the number of the signal that the handler sent.
    """

    registers: Mapping[str, int]
    handler: int
    signal: int


def restore_interrupted(target: Target, code: Code, threads: Threads, findings: Findings) -> Threads:
    """The threads, those that died in a handler in their state when its signal arrived."""
    changed = []
    for seen in threads:
        interrupted = find_interrupted(target, code, seen) if seen.unavailable is None else None
        if interrupted is None:
            continue
        native, depth, registers = seen.native(code), interrupted.handler, interrupted.registers
        call = seen.cpu.system_call(registers)
        changed.append(replace(seen, registers=registers, call=call, futex=decode_futex(target.memory, call),
                               is_restored=True, handler=native[:depth], frames=native[depth:]))
        findings.notes.append(because("died-in-handler", thread=seen.number, signal=CORE_SIGNALS[interrupted.signal]))
    return threads.replaced(changed)


def find_interrupted(target: Target, code: Code, seen: SeenThread) -> Interrupted | None:
    """The state of a thread when a signal arrived whose handler sends the signal that ended the program."""
    cpu, memory = code.cpu, target.memory
    returned = seen.call is None
    # to read a thread's signal the debugger has to switch to the thread, so only a few are asked for it
    if not (cpu.is_at_system_call(memory, seen.pc) if returned else _sends_signal(seen.call)):
        return None
    info = target.signal(seen.ref)
    if info is None or info.number not in CORE_SIGNALS:
        return None
    native = seen.native(code)
    if returned:
        # the signal was blocked in the handler that sent it, and arrived when the handler had returned
        registers = {**seen.registers, **_call(target, code, seen.registers, native)}
        was_called = info.code == SI_TKILL and cpu.system_call(registers) is not None
        return Interrupted(registers, 0, info.number) if was_called else None
    for depth, sp in handlers(cpu, memory, native):
        try:
            saved = cpu.read_interrupted(memory, sp)
        except GdbextError:
            return None
        saved[cpu.THREAD_POINTER] = seen.thread_pointer
        return Interrupted({**saved, **_call(target, code, saved, native[depth:])}, depth, info.number)
    return None


def handlers(cpu: Architecture, memory: Memory, native: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """For each running signal handler: the number of its frames, and the address of the saved context.

    :param native: (program counter, stack pointer) of a thread's frames, innermost first.
    """
    for index, (pc, sp) in enumerate(native[:MAX_HANDLER]):
        if cpu.is_signal_return(memory, pc):
            yield index + 1, sp


def handled_signals(cpu: Architecture, memory: Memory, native: Sequence[tuple[int, int]]) -> Sequence[int | None]:
    """The signal of each running handler, innermost first; None for one that does not record it."""
    found = []
    for _, sp in handlers(cpu, memory, native):
        try:
            found.append(cpu.handled_signal(memory, sp))
        except GdbextError:
            found.append(None)
    return found


def is_sending(cpu: Architecture, registers: Mapping[str, int]) -> bool:
    """Whether a thread is in a call that sends a signal."""
    return _sends_signal(cpu.system_call(registers))


def _sends_signal(call: Syscall | None) -> bool:
    return call is not None and call.name in _SENDS


def was_sending(target: Target, code: Code, registers: Mapping[str, int]) -> bool:
    """Whether a signal interrupted a thread that was sending one, which then is the signal that arrived.

    :param registers: the registers that the handler returns to.
    """
    return is_sending(code.cpu, _call(target, code, registers, ()))


def _call(target: Target, code: Code, registers: Mapping[str, int],
          native: Sequence[tuple[int, int]]) -> Mapping[str, int]:
    from gdbext.threads.function_code import code_up_to

    return code.cpu.interrupted_call(target.memory, registers, native, lambda pc: code_up_to(target, code, pc))
