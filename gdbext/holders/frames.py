"""The native frames of a thread, with the registers that gdbext or the debugger finds for them."""

from __future__ import annotations

from collections.abc import Mapping

from gdbext.errors import GdbextError, if_unreadable
from gdbext.inferior.protocol import Target
from gdbext.remembered import remembered
from gdbext.threads.code import Code
from gdbext.threads.threads import SeenThread


class ThreadStack:
    """Implements `proofs.stack.Stack` for a thread of a snapshot."""

    def __init__(self, target: Target, code: Code, seen: SeenThread) -> None:
        self._target = target
        self._code = code
        self._seen = seen
        self.number = seen.number
        self.native = seen.native(code)

    def registers(self, index: int) -> Mapping[str, int]:
        """The known registers of a frame; none if the debugger unwinds the stack differently."""
        seen = self._seen
        try:
            if index == 0:
                return self._target.registers(seen.ref, seen.cpu.FRAME)
            registers = self._target.frame_registers(seen.ref, index + len(seen.handler))
        except GdbextError:
            return {}
        return registers if self._are_of(registers, index) else {}

    @remembered
    @if_unreadable(None)
    def known_registers(self, index: int) -> Mapping[str, int] | None:
        """The registers of a frame, without a stop of the thread and without the debugger; None if some are unknown."""
        seen = self._seen
        own = seen.registers if seen.is_restored else {**seen.registers, **self._target.known_registers(seen.ref)}
        registers = self._code.frame_registers(own, index)
        is_known = self._are_of(registers, index) and registers.keys() >= {*seen.cpu.CALLEE_SAVED}
        return registers if is_known else None

    def _are_of(self, registers: Mapping[str, int], index: int) -> bool:
        cpu = self._seen.cpu
        return (registers.get(cpu.PROGRAM_COUNTER), registers.get(cpu.STACK_POINTER)) == self.native[index]
