"""Follows bad values back to their origins: through the code of a function, memory and the function's callers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from gdbext.arch.protocol import Instruction, MemoryOperand, Origin
from gdbext.crash.pointers import Pointers, function_name
from gdbext.errors import if_unreadable
from gdbext.inferior.protocol import Target, ThreadRef
from gdbext.model.reasons import Reason, because
from gdbext.record import record
from gdbext.threads.code import Code
from gdbext.threads.function_code import MAX_FUNCTION, FunctionCode, function_at

#: How many origins of a value are followed in one function, and through how many callers.
_MAX_ORIGINS, _MAX_CALLERS = 4, 4
#: The outermost frame that an argument may have been passed on from.
_MAX_PASSED = 32


@record
class Link:
    """A pointer in the chain that led to a fault: the `value` of `register` was read from `offset` of object `base`."""

    register: str
    value: int
    origin: Reason
    base: int | None = None
    offset: int | None = None
    argument: int | None = None
    certain: bool = True


class OriginReader:
    """Finds the origins of values in the functions of one thread's stack."""

    def __init__(self, target: Target, code: Code, pointers: Pointers) -> None:
        self._target = target
        self._code = code
        self._cpu = code.cpu
        self._pointers = pointers

    def code_at_call(self, after: int) -> FunctionCode | None:
        """The function of a return address, at the call before it; None if there is no call."""
        found = self._code.function_range(after - 1)  # the call may be the function's last instruction
        if found is None:
            return None
        for address, size, text in self._target.disassemble(max(found[0], after - MAX_FUNCTION), after):
            if address + size == after and self._cpu.parse(address, size, text).kind == "call":
                return function_at(self._target, self._code, address)
        return None

    def chain(self, code: FunctionCode, registers: Mapping[str, int], register: str) -> list[Link]:
        """Follow a register at an instruction: to memory, to the origin of that pointer, and so on."""
        return self._chain(code, registers, register)[0]

    def _chain(self, code: FunctionCode, registers: Mapping[str, int], register: str,
               is_caller: bool = False) -> tuple[list[Link], bool]:
        """The chain, and whether the register's value is not the one that the code before the instruction makes.

        :param is_caller: the code is that of a caller, whose callee may have jumped on to another function.
        """
        links: list[Link] = []
        index, value = code.at, registers.get(register, 0)
        while len(links) < _MAX_ORIGINS:
            found = self._cpu.origin(code.instructions, index, register)
            if found is not None and self._contradicts(found, registers, value):
                return links, not links
            if found is not None and is_caller and not links and self._reads_other(found, registers, value):
                return [], False
            link = self._link(found, code, registers, register, value) if found is not None else None
            if found is None or link is None:
                break
            links.append(link)
            stored = self._stored(code, found, index)
            if stored is not None:
                index, register = stored
                continue
            if found.instruction is None or found.operand is None or found.operand.base is None or link.base is None:
                break
            base = found.operand.base_register
            if base is None or base == self._cpu.STACK_POINTER:
                break
            index, register, value = code.instructions.index(found.instruction), base, link.base
        return links, False

    def _stored(self, code: FunctionCode, found: Origin, index: int) -> tuple[int, str] | None:
        """The instruction, by its index, and the register that it stored into the local variable that was read.

        The function must store nothing else there, and use the address of the variable for nothing.
        """
        operand = found.operand
        if found.kind != "loaded" or operand is None or operand.index is not None or found.instruction is None:
            return None
        base = operand.base_register
        is_of_frame = any(made.target == base and made.source == self._cpu.STACK_POINTER and not made.offset
                          for each in code.instructions[:code.at] for made in each.assignments() or ())
        if not is_of_frame or operand.segment is not None:
            return None
        place = (base, operand.displacement)
        users = [i for i, each in enumerate(code.instructions) if each.memory is not None
                 and (each.memory.base_register, each.memory.displacement) == place
                 and {access.kind for access in each.accesses() if access.operand == each.memory} != {"read"}]
        made = code.instructions[users[0]].assignments() if len(users) == 1 and users[0] < index else None
        if not made or not isinstance(made[0].target, MemoryOperand) or not isinstance(made[0].source, str):
            return None
        return users[0], made[0].source

    def _contradicts(self, found: Origin, registers: Mapping[str, int], value: int) -> bool:
        """Whether an instruction would have made another value than the one that was found."""
        if found.instruction is None:
            return False
        made = found.value
        if found.kind == "computed" and found.operand is not None and (
                found.operand_unchanged or found.operand.base_register == self._cpu.STACK_POINTER):
            made = found.operand.address(registers, found.instruction.next_address)
        elif not found.certain:
            return self._reads_other(found, registers, value)
        return made is not None and not _is_same(made, value, 8)

    def _reads_other(self, found: Origin, registers: Mapping[str, int], value: int) -> bool:
        """Whether memory now contains another value than the one that was read from there."""
        if found.kind != "loaded" or found.instruction is None or found.operand is None or not found.operand_unchanged:
            return False
        size = _size_read(found.instruction)
        made = self._now(found.operand, found.instruction, registers, size)
        return made is not None and not _is_same(made, value, size)

    def chain_with_callers(self, code: FunctionCode, registers: Mapping[str, int], register: str,
                           thread: ThreadRef, frames: Sequence[tuple[int, int]], offset: int) -> list[Link]:
        """Follow a register as `chain` does, and a value that was an argument through the callers.

        Of a caller's registers only those that calls preserve are known, so a value is followed only if memory
        confirms it. If a caller passed another value, the register has been changed since.

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
            call = self.code_at_call(after)
            if call is None:
                break
            argument = self._cpu.ARGUMENTS[links[-1].argument - 1]
            more, is_other = self._chain(call, {**outer, argument: links[-1].value}, argument, True)
            if is_other:
                return links[:-1]
            if not more or not links[-1].certain:
                break
            name = self.name(after - 1)
            links += [replace(link, origin=because("in-caller", function=name, origin=link.origin)) for link in more]
        return links

    def argument(self, thread: ThreadRef, frames: Sequence[tuple[int, int]], depth: int, offset: int,
                 number: int = 1) -> int | None:
        """An argument of the call that a frame is in, the first one by default; None if it is not known.

        :param frames: (program counter, stack pointer) of the thread's frames, innermost first.
        :param depth: the index of the frame.
        :param offset: the number of the debugger's frames before them.
        """
        after, sp = frames[depth]
        registers = self._target.frame_registers(thread, depth + offset)
        if (registers.get(self._cpu.PROGRAM_COUNTER), registers.get(self._cpu.STACK_POINTER)) != (after, sp):
            return None
        call, name = self.code_at_call(after), self._cpu.ARGUMENTS[number - 1]
        if call is None:
            return None
        if depth + 1 < min(len(frames), _MAX_PASSED) and not any(
                name in each.written for each in call.instructions[:call.at]):
            return self.argument(thread, frames, depth + 1, offset, number)  # the function passes its own on
        return self._assigned(call, registers, name)

    @if_unreadable(None)
    def _assigned(self, call: FunctionCode, registers: Mapping[str, int], name: str) -> int | None:
        """The value of a register at a call, from the instruction that set it and registers that calls preserve."""
        for index in range(call.at - 1, -1, -1):
            instruction = call.instructions[index]
            if name not in instruction.written:
                continue
            made = next((each for each in instruction.assignments() or () if each.target == name), None)
            later = {register for each in call.instructions[index:call.at] for register in each.written} - {name}
            known = {register: value for register, value in registers.items() if register not in later}
            if made is None or instruction.kind == "call":
                return None
            if isinstance(made.source, str):
                return known[made.source] + made.offset if made.source in known else None
            if not isinstance(made.source, MemoryOperand):
                return made.source
            address = made.source.address(known, instruction.next_address)
            if address is None or made.is_address:
                return address
            return int.from_bytes(self._target.memory.read(address, 8), "little")
        return None

    def name(self, address: int) -> Reason:
        """The name of the function at an address."""
        return function_name(self._code.symbol(address).function, self._code.module(address))

    def _link(self, found: Origin, code: FunctionCode, registers: Mapping[str, int], register: str,
              value: int) -> Link | None:
        instruction = found.instruction
        if found.argument is not None:
            name = self.name(code.here.address)
            is_this = found.argument == 1 and name.code == "function" and "::" in str(dict(name.arguments)["name"])
            text = because("argument", register=register, number=found.argument, function=name, is_this=int(is_this))
            return Link(register, value, _unless_certain(found, text), argument=found.argument, certain=found.certain)
        if instruction is None:
            return None
        if found.kind == "loaded" and found.operand is not None:
            operand = found.operand
            if not found.operand_unchanged and operand.segment is None:
                registers = self._before(code, instruction, operand, registers)
                is_known = all(name in registers for name in operand.address_registers)
                found = replace(found, operand_unchanged=is_known and self._confirms(
                    operand, instruction, registers, value))
            return self._loaded(found, operand, instruction, registers, register, value)
        if found.kind == "computed" and self._cpu.STACK_POINTER in instruction.written:
            return None  # the address of a frame, which says nothing
        if found.kind == "result" and not found.certain:
            return None  # nothing confirms it, and the code between may belong to another path
        if found.kind == "result":
            text = because("result", register=register, function=self._callee(instruction))
        else:
            text = because("constant" if found.kind == "constant" else "computed", register=register,
                           instruction=instruction.text)
        return Link(register, value, _unless_certain(found, text))

    def _before(self, code: FunctionCode, instruction: Instruction, operand: MemoryOperand,
                registers: Mapping[str, int]) -> dict[str, int]:
        """The registers with those of an operand as they were before an instruction; unknown ones are left out."""
        known = dict(registers)
        at = code.instructions.index(instruction)
        for name in operand.address_registers:
            value = self._earlier(code, at, name, registers, _MAX_ORIGINS)
            if value is None:
                known.pop(name, None)
            else:
                known[name] = value
        return known

    def _earlier(self, code: FunctionCode, at: int, register: str, registers: Mapping[str, int],
                 depth: int) -> int | None:
        """The value that a register had before an instruction, computed again from memory if it was overwritten.

        Straight code is assumed, so memory must confirm what follows from it.
        """
        if not any(register in each.written for each in code.instructions[at:code.at]):
            return registers.get(register)
        found = self._cpu.origin(code.instructions, at, register) if depth else None
        if found is None or found.instruction is None or found.operand is None or found.kind != "loaded":
            return found.value if found is not None and found.kind == "constant" else None
        place = code.instructions.index(found.instruction)
        names = found.operand.address_registers
        known = {name: value for name in names if place < at and
                 (value := self._earlier(code, place, name, registers, depth - 1)) is not None}
        if len(known) != len(names) or found.operand.segment is not None:
            return None
        return self._now(found.operand, found.instruction, known, _size_read(found.instruction))

    def _confirms(self, operand: MemoryOperand, instruction: Instruction, registers: Mapping[str, int],
                  value: int) -> bool:
        """Whether memory still contains the value that an instruction has read."""
        size = _size_read(instruction)
        now = self._now(operand, instruction, registers, size)
        return now is not None and _is_same(now, value, size)

    def _loaded(self, found: Origin, operand: MemoryOperand, instruction: Instruction, registers: Mapping[str, int],
                register: str, value: int) -> Link:
        read = {"register": register, "operand": operand.text}
        address = operand.address(registers, instruction.next_address) if found.operand_unchanged else None
        size = _size_read(instruction)
        now = None if address is None else self._now(operand, instruction, registers, size)
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

    @if_unreadable(None)
    def _now(self, operand: MemoryOperand, instruction: Instruction, registers: Mapping[str, int],
             size: int) -> int | None:
        """What is stored now where an instruction read."""
        address = operand.address(registers, instruction.next_address)
        return None if address is None else int.from_bytes(self._target.memory.read(address, size), "little")

    def _callee(self, instruction: Instruction) -> Reason | str:
        target = instruction.call_target
        name = self._code.symbol(target).function if target is not None else None
        return function_name(name.partition("@")[0], None) if name else f"`{instruction.text}`"


def _is_same(one: int, other: int, size: int) -> bool:
    """Whether two values are the same in their lowest bytes."""
    return (one ^ other) & (1 << 8 * size) - 1 == 0


def _size_read(instruction: Instruction) -> int:
    """How many bytes of a register an instruction has read from memory."""
    return min(next((access.size for access in instruction.accesses() if access.kind == "read"), None) or 8, 8)


def _unless_certain(found: Origin, text: Reason) -> Reason:
    return text if found.certain else because("uncertain-origin", origin=text)
