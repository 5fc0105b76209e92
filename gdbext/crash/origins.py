"""Follows bad values back to their origins: through the code of a function, memory and the function's callers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from gdbext.arch.protocol import Instruction, MemoryOperand, Origin
from gdbext.crash.pointers import Pointers, function_name
from gdbext.errors import GdbextError
from gdbext.inferior.protocol import Target, ThreadRef
from gdbext.model.reasons import Reason, because
from gdbext.record import record
from gdbext.threads.code import Code
from gdbext.threads.function_code import MAX_FUNCTION, code_up_to

#: How many origins of a value are followed in one function, and through how many callers.
_MAX_ORIGINS, _MAX_CALLERS = 4, 4


@record
class Link:
    """A pointer in the chain that led to a fault: the `value` of `register` was read from `offset` of object `base`."""

    register: str
    value: int
    origin: Reason
    base: int | None = None
    offset: int | None = None
    argument: int | None = None


class OriginReader:
    """Finds the origins of values in the functions of one thread's stack."""

    def __init__(self, target: Target, code: Code, pointers: Pointers) -> None:
        self._target = target
        self._code = code
        self._cpu = code.cpu
        self._pointers = pointers

    def code_up_to_call(self, after: int) -> list[Instruction]:
        """The function's code up to the call before a return address; empty if there is no call."""
        found = self._code.function_range(after)
        if found is None:
            return []
        for address, size, text in self._target.disassemble(max(found[0], after - MAX_FUNCTION), after):
            if address + size == after and self._cpu.parse(address, size, text).kind == "call":
                return code_up_to(self._target, self._code, address)
        return []

    def chain(self, code: Sequence[Instruction], registers: Mapping[str, int], register: str) -> list[Link]:
        """Follow a register at the last instruction: to memory, to the origin of that pointer, and so on."""
        links: list[Link] = []
        index, value = len(code) - 1, registers.get(register, 0)
        while len(links) < _MAX_ORIGINS:
            found = self._cpu.origin(code, index, register)
            link = self._link(found, code, registers, register, value) if found is not None else None
            if found is None or link is None:
                break
            links.append(link)
            if found.instruction is None or found.operand is None or found.operand.base is None or link.base is None:
                break
            base = found.operand.base_register
            if base is None or base == self._cpu.STACK_POINTER:
                break
            index, register, value = code.index(found.instruction), base, link.base
        return links

    def chain_with_callers(self, code: Sequence[Instruction], registers: Mapping[str, int], register: str,
                           thread: ThreadRef, frames: Sequence[tuple[int, int]], offset: int) -> list[Link]:
        """Follow a register as `chain` does, and a value that was an argument through the callers.

        Of a caller's registers only those that calls preserve are known, so a value is followed only if memory
        confirms it.

        :param frames: (program counter, stack pointer) of the thread's frames, innermost first.
        :param offset: the number of the debugger's frames before them.
        """
        links = self.chain(code, registers, register)
        for depth in range(1, min(_MAX_CALLERS + 1, len(frames))):
            if not links or links[-1].argument is None:
                break
            after, sp = frames[depth]
            outer = self._target.frame_registers(thread, depth + offset)
            if (outer.get(self._cpu.PROGRAM_COUNTER), outer.get(self._cpu.STACK_POINTER)) != (after, sp):
                break  # the debugger unwinds differently
            call = self.code_up_to_call(after)
            argument = self._cpu.ARGUMENTS[links[-1].argument - 1]
            more = self.chain(call, {**outer, argument: links[-1].value}, argument) if call else []
            if not more:
                break
            name = self._name(after - 1)
            links += [replace(link, origin=because("in-caller", function=name, origin=link.origin)) for link in more]
        return links

    def _name(self, address: int) -> Reason:
        return function_name(self._code.symbol(address).function, self._code.module(address))

    def _link(self, found: Origin, code: Sequence[Instruction], registers: Mapping[str, int], register: str,
              value: int) -> Link | None:
        instruction = found.instruction
        if found.argument is not None:
            name = self._name(code[-1].address)
            is_this = found.argument == 1 and name.code == "function" and "::" in str(dict(name.arguments)["name"])
            text = because("argument", register=register, number=found.argument, function=name, is_this=int(is_this))
            return Link(register, value, _unless_certain(found, text),
                        argument=found.argument if found.certain else None)
        if instruction is None:
            return None
        if found.kind == "loaded" and found.operand is not None:
            return self._loaded(found, found.operand, instruction, registers, register, value)
        if found.kind == "result":
            text = because("result", register=register, function=self._callee(instruction))
        else:
            text = because("constant" if found.kind == "constant" else "computed", register=register,
                           instruction=instruction.text)
        return Link(register, value, _unless_certain(found, text))

    def _loaded(self, found: Origin, operand: MemoryOperand, instruction: Instruction, registers: Mapping[str, int],
                register: str, value: int) -> Link:
        read = {"register": register, "operand": operand.text}
        address = operand.address(registers, instruction.next_address) if found.operand_unchanged else None
        # the load may have been of a part of a register
        size = next((access.size for access in instruction.accesses() if access.kind == "read"), None) or 8
        try:
            now = None if address is None else int.from_bytes(self._target.memory.read(address, min(size, 8)), "little")
        except GdbextError:
            now = None
        if address is None or now is None:
            return Link(register, value, _unless_certain(found, because("loaded", **read)))
        is_same = now == value & (1 << 8 * size) - 1  # then memory itself confirms the origin
        is_plain = operand.base is not None and operand.index is None and operand.segment is None
        base = registers.get(operand.base_register or "") if is_plain else None
        shown, what = None if is_same else now, self._pointers.describe(address if base is None else base).what
        if base is None:
            text = because("loaded", now=shown, what=what, **read)
        else:
            text = because("loaded", now=shown, base=operand.base, value=base, what=what, **read)
        return Link(register, value, text if is_same else _unless_certain(found, text), base,
                    operand.displacement if base is not None else None)

    def _callee(self, instruction: Instruction) -> Reason | str:
        target = instruction.call_target
        name = self._code.symbol(target).function if target is not None else None
        return function_name(name.partition("@")[0], None) if name else f"`{instruction.text}`"


def _unless_certain(found: Origin, text: Reason) -> Reason:
    return text if found.certain else because("uncertain-origin", origin=text)
