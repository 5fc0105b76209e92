"""Runs instructions on known values, without a process: registers and memory as they are at a stop.

An instruction that is not modelled makes its results unknown. The target's memory is never written.

Source: Intel SDM volume 2.
"""

from __future__ import annotations

from collections.abc import Mapping

from gdbext.arch.protocol import Instruction, Operand
from gdbext.arch.x86_64.instructions import EXTEND, MemoryOperand, base_name, part
from gdbext.arch.x86_64.registers import CALLER_SAVED, GENERAL
from gdbext.errors import GdbextError
from gdbext.inferior.protocol import Memory

_MASK = (1 << 64) - 1
_BITS = {"b": 8, "w": 16, "l": 32, "q": 64}
#: What each condition is about: the two compared values as unsigned or signed numbers.
_UNSIGNED = {"e": "==", "z": "==", "ne": "!=", "nz": "!=", "a": ">", "nbe": ">", "ae": ">=", "nc": ">=", "nb": ">=",
             "b": "<", "c": "<", "nae": "<", "be": "<=", "na": "<="}
_SIGNED = {"g": ">", "nle": ">", "ge": ">=", "nl": ">=", "l": "<", "nge": "<", "le": "<=", "ng": "<="}


class Machine:
    """The known registers, the changes to memory, and the last comparison.

    `registers` has only those that are known. Memory is that of the target, unless the code has changed it.
    """

    def __init__(self, memory: Memory, registers: Mapping[str, int]) -> None:
        self._memory = memory
        self.registers = {name: value for name, value in registers.items() if name in GENERAL}
        #: The lowest bits, and how many they are, of registers whose other bits are unknown.
        self._lowest: dict[str, tuple[int, int]] = {}
        #: Bytes that the code has written, None for unknown ones; `_lost`: any other byte may be changed too.
        self._written: dict[int, int | None] = {}
        self._lost = False
        #: The two values that were compared last, with their size in bits.
        self._compared: tuple[int, int, int] | None = None

    def copy(self) -> Machine:
        """A copy, for another path."""
        made = Machine(self._memory, self.registers)
        made._lowest = dict(self._lowest)
        made._written, made._lost, made._compared = dict(self._written), self._lost, self._compared
        return made

    def lowest(self, register: str, bits: int) -> int | None:
        """The lowest bits of a register; None if they are not known."""
        if register in self.registers:
            return self.registers[register] & (1 << bits) - 1
        known, value = self._lowest.get(register, (0, 0))
        return value & (1 << bits) - 1 if known >= bits else None

    # -- memory ------------------------------------------------------------------------------------------------

    def read(self, address: int, size: int) -> int | None:
        """A number in memory; None if it is not known."""
        places = [at & _MASK for at in range(address, address + size)]
        changed = [self._written[at] for at in places if at in self._written]
        if None in changed or self._lost and len(changed) < size:
            return None
        if len(changed) == size:
            return int.from_bytes(bytes(byte or 0 for byte in changed), "little")
        try:
            data = bytearray(self._memory.read(address, size))
        except GdbextError:
            return None
        for i, at in enumerate(places):
            data[i] = self._written.get(at, data[i]) or 0
        return int.from_bytes(data, "little")

    def lose_memory(self) -> None:
        """Forget all memory: it may have been written anywhere."""
        self._written, self._lost = {}, True

    def _write(self, address: int | None, size: int | None, value: int | None) -> None:
        if address is None or size is None:
            self.lose_memory()
            return
        for i in range(size):
            self._written[address + i & _MASK] = None if value is None else value >> 8 * i & 0xFF

    # -- control -----------------------------------------------------------------------------------------------

    def is_taken(self, jump: Instruction) -> bool | None:
        """Whether a jump is taken; None if the condition is unknown."""
        return True if jump.mnemonic == "jmp" else self._condition(jump.mnemonic[1:])

    def target(self, instruction: Instruction) -> int | None:
        """The address that a call or jump leads to; None if it is not known."""
        if not instruction.operands:
            return None
        operand = instruction.operands[0]
        return operand if isinstance(operand, int) else self._value(operand, 64, instruction)

    def enter(self, return_address: int) -> None:
        """Push the return address, as a call does."""
        self._push(return_address)

    def leave(self) -> int | None:
        """Return from a function: the return address, None if it is not known."""
        sp = self.registers.get("rsp")
        if sp is None:
            return None
        self.registers["rsp"] = sp + 8 & _MASK
        return self.read(sp, 8)

    def skip_call(self) -> None:
        """Pass over a call of a function that is not followed: its result is not known."""
        for name in CALLER_SAVED:
            self._lose(name)
        self._compared = None

    # -- other instructions ------------------------------------------------------------------------------------

    def step(self, instruction: Instruction) -> None:
        """Run an instruction that is not a call, a jump or a return."""
        if not self._run(instruction):
            self._forget(instruction)

    def _run(self, instruction: Instruction) -> bool:
        """Run an instruction; False if it is not modelled."""
        mnemonic, operands = instruction.mnemonic, instruction.operands
        name = base_name(mnemonic)
        if instruction.prefixes:
            return False
        if mnemonic in ("push", "pushq") and len(operands) == 1:
            self._push(self._value(operands[0], 64, instruction))
        elif mnemonic in ("pop", "popq") and operands and operands[0] in GENERAL:
            self._set(str(operands[0]), self.leave(), 64)
        elif mnemonic == "leave":
            self._set("rsp", self.registers.get("rbp"), 64)
            self._set("rbp", self.leave(), 64)
        elif mnemonic.startswith("set") and len(operands) == 1:
            taken = self._condition(mnemonic[3:])
            self._store(operands[0], None if taken is None else int(taken), 8, instruction)
        elif name == "neg" and len(operands) == 1 and (bits := _bits(instruction)) is not None:
            given = self._value(operands[0], bits, instruction)
            self._compared = (0, given, bits) if given is not None else None
            self._store(operands[0], -given if given is not None else None, bits, instruction)
        elif len(operands) != 2:
            return False
        elif EXTEND.match(mnemonic):
            size = _BITS[mnemonic[4]]
            narrow = self._value(operands[0], size, instruction)
            self._store(operands[1], _signed(narrow, size) if narrow is not None and mnemonic[3] == "s" else narrow,
                        _BITS[mnemonic[5]], instruction)
        elif name in ("mov", "movabs", "lea", "cmp", "test", "add", "sub", "and", "or", "xor"):
            bits = _bits(instruction)
            if bits is None:
                return False
            self._compute(name, bits, instruction)
        else:
            return False
        return True

    def _compute(self, name: str, bits: int, instruction: Instruction) -> None:
        source, target = instruction.operands
        if name == "lea":
            place = (source.address(self.registers, instruction.next_address)
                     if isinstance(source, MemoryOperand) else None)
            self._store(target, place, bits, instruction)
            return
        given = self._value(source, bits, instruction)
        if name in ("mov", "movabs"):
            self._store(target, given, bits, instruction)
            return
        known = self._value(target, bits, instruction)
        if name == "xor" and source == target:
            given = known = 0
        if given is None or known is None:
            self._compared = None
            if name not in ("cmp", "test"):
                self._store(target, None, bits, instruction)
            return
        result = {"cmp": known - given, "sub": known - given, "add": known + given, "test": known & given,
                  "and": known & given, "or": known | given, "xor": known ^ given}[name] & (1 << bits) - 1
        # the sum of an addition says nothing about carry and overflow
        self._compared = ((known, given, bits) if name in ("cmp", "sub") else None if name == "add"
                          else (result, 0, bits))
        if name not in ("cmp", "test"):
            self._store(target, result, bits, instruction)

    def _forget(self, instruction: Instruction) -> None:
        """Make all unknown that an instruction writes."""
        if not instruction.operands and len(instruction.text.split()) > len(instruction.prefixes) + 1:
            self.registers, self._lowest = {}, {}
            self.lose_memory()
        for access in instruction.accesses():
            if access.kind == "write":
                self._write(access.operand.address(self.registers, instruction.next_address), access.size, None)
        for name in instruction.written:
            self._lose(name)
        if instruction.kind != "filler" and instruction.mnemonic != "endbr64":
            self._compared = None

    # -- values ------------------------------------------------------------------------------------------------

    def _condition(self, name: str) -> bool | None:
        if self._compared is None:
            return None
        left, right, bits = self._compared
        relation = _UNSIGNED.get(name)
        if relation is None:
            relation = _SIGNED.get(name)
            if relation is None and name in ("s", "ns") and not right:
                relation = "<" if name == "s" else ">="
            left, right = _signed(left, bits), _signed(right, bits)
        if relation is None:
            return None
        return {"==": left == right, "!=": left != right, "<": left < right, "<=": left <= right, ">": left > right,
                ">=": left >= right}[relation]

    def _value(self, operand: Operand, bits: int, instruction: Instruction) -> int | None:
        if isinstance(operand, int):
            return operand & (1 << bits) - 1
        if isinstance(operand, MemoryOperand):
            address = operand.address(self.registers, instruction.next_address)
            return self.read(address, bits // 8) if address is not None else None
        found = part(operand)
        if found is None or found[1] < bits:
            return None
        return self.lowest(found[0], bits)

    def _store(self, operand: Operand, value: int | None, bits: int, instruction: Instruction) -> None:
        if isinstance(operand, MemoryOperand):
            self._write(operand.address(self.registers, instruction.next_address), bits // 8, value)
        elif isinstance(operand, str):
            found = part(operand)
            if found is not None:
                self._set(found[0], value if found[1] else None, bits)

    def _set(self, register: str, value: int | None, bits: int) -> None:
        known, lowest = self.registers.get(register), self._lowest.get(register, (0, 0))
        self._lose(register)
        if value is None:
            return
        value &= (1 << bits) - 1
        if bits >= 32:
            self.registers[register] = value  # 32 bits clear the upper half
        elif known is not None:
            self.registers[register] = value | known >> bits << bits
        else:
            self._lowest[register] = (max(bits, lowest[0]), value | lowest[1] >> bits << bits)

    def _lose(self, register: str) -> None:
        """Make a register unknown."""
        self.registers.pop(register, None)
        self._lowest.pop(register, None)

    def _push(self, value: int | None) -> None:
        sp = self.registers.get("rsp")
        if sp is None:
            self.lose_memory()
            return
        self.registers["rsp"] = sp - 8 & _MASK
        self._write(self.registers["rsp"], 8, value)


def _signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> bits - 1 & 1 else value


def _bits(instruction: Instruction) -> int | None:
    """The operand size in bits: that of a register, or of the suffix; None for other instructions of the name."""
    sizes = set()
    for operand in instruction.operands:
        if isinstance(operand, str):
            found = part(operand)
            if found is None or not found[1]:
                return None
            sizes.add(found[1])
    if len(sizes) == 1:
        return sizes.pop()
    name = base_name(instruction.mnemonic)
    return _BITS.get(instruction.mnemonic[-1]) if not sizes and name != instruction.mnemonic else None
