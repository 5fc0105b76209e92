"""Faults of instructions themselves: arithmetic, bytes that are not an instruction, traps, forbidden system calls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gdbext.crash.origins import Link, OriginReader
from gdbext.crash.seen import FaultSite, SeenFault
from gdbext.errors import GdbextError
from gdbext.inferior.cache import read_available
from gdbext.inferior.protocol import Target
from gdbext.inferior.signals import FPE_INTDIV
from gdbext.model import Fault, Operand
from gdbext.model.reasons import because
from gdbext.threads.code import Code
from gdbext.threads.function_code import FunctionCode, function_at

#: How many bytes are shown where there is no instruction.
_SHOWN_BYTES = 8


class InstructionFaults:
    """Explains the faults of instructions that do not access memory."""

    def __init__(self, target: Target, code: Code, origins: OriginReader) -> None:
        self._target = target
        self._memory = target.memory
        self._code = code
        self._cpu = code.cpu
        self._origins = origins

    def arithmetic(self, site: FaultSite, known: Fault) -> SeenFault:
        """SIGFPE: a division by 0, a quotient that does not fit, or another error."""
        code = function_at(self._target, self._code, site.registers[self._cpu.PROGRAM_COUNTER])
        if code is None:
            return SeenFault(replace(known, kind="arithmetic", text=because("arithmetic-error")))
        known = replace(known, instruction=code.here.text, kind="arithmetic",
                        text=because("arithmetic-error-in", instruction=code.here.text))
        if site.info.code != FPE_INTDIV:
            if (known.code or "").startswith("FPE_FLT"):
                known = replace(known, text=because("floating-point-error", error=known.code,
                                                    instruction=code.here.text))
            return SeenFault(known)
        divisor, bits, links = self.divisor(code, site.registers)
        if divisor is None:
            text = because("divided-by-zero-or-overflow")
        elif divisor.value == 0:
            text = because("divided-by-zero")
        else:
            is_negative = code.here.kind == "signed division" and divisor.value >> bits - 1
            text = because("quotient-too-large", divisor=divisor.value - (1 << bits if is_negative else 0))
        operands = (divisor,) if divisor is not None else ()
        return SeenFault(replace(known, kind="division", text=text, operands=operands), links)

    def divisor(self, code: FunctionCode,
                 registers: Mapping[str, int]) -> tuple[Operand | None, int, tuple[Link, ...]]:
        """The divisor of a division, its size in bits, and the origins of its register."""
        instruction = code.here
        access = next(iter(instruction.accesses()), None)
        if access is not None:
            address, size = access.operand.address(registers, instruction.next_address), access.size or 8
            try:
                value = int.from_bytes(self._memory.read(address or 0, size), "little")
            except GdbextError:
                return None, 0, ()
            return Operand(access.operand.text, value), 8 * size, ()
        part = instruction.operands[0] if instruction.operands else None
        name, bits = (instruction.part(part) if part is not None else None) or ("", 0)
        if name not in registers:
            return None, 0, ()
        links = tuple(self._origins.chain(code, registers, name))
        value = registers[name] & (1 << bits) - 1
        text = f"{self._cpu.REGISTER_PREFIX}{part}"
        return Operand(text, value, None, tuple(link.origin for link in links)), bits, links

    def illegal(self, site: FaultSite, known: Fault) -> SeenFault:
        """SIGILL: a trap of the program, bytes that are not an instruction, or one that the processor does not have."""
        code = function_at(self._target, self._code, site.registers[self._cpu.PROGRAM_COUNTER])
        known = replace(known, kind="illegal-instruction", address=site.info.address)
        data = read_available(self._memory, site.registers[self._cpu.PROGRAM_COUNTER], self._cpu.MAX_INSTRUCTION)
        if not data:
            return SeenFault(replace(known, text=because("unreadable-instruction")))
        needs = self._cpu.extension(data)
        if code is None or code.here.kind == "undefined":
            return SeenFault(replace(known, instruction=code.here.text if code is not None else None, text=because(
                "not-an-instruction", bytes=data[:_SHOWN_BYTES].hex(" "), needs=needs)))
        instruction = code.here
        known = replace(known, instruction=instruction.text)
        if instruction.kind == "trap":
            return SeenFault(replace(known, kind="trap", text=because("stopped-itself", instruction=instruction.text)))
        size = instruction.next_address - instruction.address
        return SeenFault(replace(known, text=because(
            "unsupported-instruction", instruction=instruction.text, bytes=data[:size].hex(" "), needs=needs)))

    def trap(self, site: FaultSite, known: Fault) -> SeenFault:
        """SIGTRAP: a breakpoint instruction, or on arm64 a trap of the program."""
        code = function_at(self._target, self._code, site.registers[self._cpu.PROGRAM_COUNTER])
        if code is not None and code.here.kind == "trap":
            known = replace(known, instruction=code.here.text)
            return SeenFault(replace(known, kind="trap", text=because("stopped-itself", instruction=code.here.text)))
        return SeenFault(replace(known, kind="trap", text=because("breakpoint-instruction")))

    def forbidden_call(self, site: FaultSite, known: Fault) -> SeenFault:
        """SIGSYS: a system call that a filter forbids."""
        number = site.registers[self._cpu.RESULT]
        name = self._cpu.system_call_names().get(number)
        text = because("forbidden-system-call", number=number, name=name)
        return SeenFault(replace(known, kind="seccomp", text=text))
