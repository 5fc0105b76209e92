"""A thread that died in a handler of a signal: what it did when the signal came.

Handlers such as those of faulthandler and of Abseil print something and send the signal again, so that the process ends
as it would have without them. A program that hung and was made to leave a core by `kill -ABRT` then seems to run. What
it hung in is outside of the handler's frames, with the registers that the kernel saved for the return from it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from gdbext.arch.protocol import Architecture
from gdbext.errors import GdbextError
from gdbext.inferior.protocol import Memory, Target
from gdbext.inferior.signals import CORE_SIGNALS, SI_TKILL
from gdbext.model.reasons import because
from gdbext.threads.code import Code
from gdbext.threads.findings import Findings
from gdbext.threads.threads import SeenThread, Threads, decode_futex

#: How many frames a handler may have.
MAX_HANDLER = 64
# raise() may block signals as it sends one, which then comes when it lets them in again (glibc 2.31
# sysdeps/unix/sysv/linux/raise.c)
_SENDS = frozenset(("kill", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "rt_sigprocmask"))


class Interrupted(NamedTuple):
    """Where a thread was: its registers, as a debugger would have shown them then, with those of a system call.

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
        call = seen.cpu.system_call(registers)
        changed.append(replace(seen, registers=registers, call=call, futex=decode_futex(target.memory, call),
                               is_taken_back=True, handler=native[:depth], frames=native[depth:]))
        findings.notes.append(because("died-in-handler", thread=seen.number, signal=CORE_SIGNALS[interrupted.signal]))
    return threads.replaced(changed)


def find_interrupted(target: Target, code: Code, seen: SeenThread) -> Interrupted | None:
    """What a thread did when a signal came from whose handler it sends one that has ended the program."""
    cpu, memory = code.cpu, target.memory
    returned = seen.call is None
    # a debugger is asked for the signal of few threads only: it has to switch to each
    if not (cpu.is_at_system_call(memory, seen.pc) if returned else is_sending(cpu, seen.registers)):
        return None
    info = target.signal(seen.ref)
    if info is None or info.number not in CORE_SIGNALS:
        return None
    native = seen.native(code)
    if returned:
        # one that was blocked in the handler that sent it came when that had returned
        registers = {**seen.registers, **_call(target, code, seen.registers, native)}
        was_called = info.code == SI_TKILL and cpu.system_call(registers) is not None
        return Interrupted(registers, 0, info.number) if was_called else None
    for depth, sp in handlers(cpu, memory, native):
        try:
            saved = cpu.read_interrupted(memory, sp)
        except GdbextError:
            return None
        saved[cpu.THREAD_POINTER] = seen.registers.get(cpu.THREAD_POINTER, 0)
        return Interrupted({**saved, **_call(target, code, saved, native[depth:])}, depth, info.number)
    return None


def handlers(cpu: Architecture, memory: Memory, native: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """For each running signal handler: the number of its frames, and the address of the saved context.

    :param native: (program counter, stack pointer) of a thread's frames, innermost first.
    """
    for index, (pc, sp) in enumerate(native[:MAX_HANDLER]):
        if cpu.is_signal_return(memory, pc):
            yield index + 1, sp


def is_sending(cpu: Architecture, registers: Mapping[str, int]) -> bool:
    """Whether a thread is in a call that sends a signal."""
    call = cpu.system_call(registers)
    return call is not None and call.name in _SENDS


def was_sending(target: Target, code: Code, registers: Mapping[str, int]) -> bool:
    """Whether a thread was interrupted as it sent a signal, which then was the one that came.

    :param registers: that a handler will return to.
    """
    return is_sending(code.cpu, _call(target, code, registers, ()))


def _call(target: Target, code: Code, registers: Mapping[str, int],
          native: Sequence[tuple[int, int]]) -> Mapping[str, int]:
    from gdbext.threads.function_code import code_up_to

    return code.cpu.interrupted_call(target.memory, registers, native, lambda pc: code_up_to(target, code, pc))
