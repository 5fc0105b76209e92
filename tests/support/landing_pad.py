"""A frame of Rust with a landing pad in assembler text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import cast

from gdbext.arch import x86_64
from gdbext.arch.protocol import ExceptionTable
from gdbext.inferior.address_space import AddressSpace
from gdbext.inferior.protocol import Module, Section, Symbol, Target
from gdbext.libraries.rust.guards import Cleanup, Guards
from gdbext.proofs.analysis import LockAnalysis
from gdbext.proofs.flow.atomics import Inlined
from gdbext.threads.code import Code
from tests.support.fake_memory import FakeMemory

TEXT, STEP, SIZE = 0x40_1000, 8, 0x100
TABLE, PERSONALITY, STACK, LOCK = 0x40_8000, 0x40_7000, 0x7F00_0000, 0x5000
MODULE = Module("/app/server", (Section(".text", TEXT, TEXT + 0x4000),), is_main=True)
NAMES = {"other": TEXT + 0x3200, "resume": TEXT + 0x3300, "drop": TEXT + 0x3400,
         "send": TEXT + 0x3500}
#: How a destructor of parking_lot releases the lock whose address is in a register.
RELEASE = """
    xor %ecx,%ecx
    mov $0x1,%eax
    lock cmpxchg %cl,({})
"""
RESUME = "mov %rbx,%rdi\ncall resume"
BYTE = Inlined(1, frozenset(), frozenset(("compares",)))
COUNT = Inlined(8, frozenset(), frozenset(("compares", "adds")), subtracted=frozenset((16,)))


class Frame:
    """A frame whose call has a landing pad of the given lines; the other functions are called by it."""

    def __init__(self, pad: str, actions: bytes = b"\0", personality: str | None = "rust_eh_personality",
                 dropped: Inlined = BYTE, calls: Sequence[str] = ("call other",), **functions: str) -> None:
        # one range of calls, whose landing pad comes after it
        head = b"\xff\xff\x01\x04" + bytes((0, STEP * len(calls), STEP * len(calls))) + actions
        self.memory = FakeMemory({TEXT: b"\x90" * 0x4000, TABLE: head + bytes(32), STACK: bytes(0x200),
                                  LOCK: bytes(0x100), PERSONALITY: b"\x90" * 16})
        self.personality = personality
        self.personality_at = PERSONALITY
        self.dropped = dropped
        self.lines: dict[int, str] = {}
        self.starts = {name: TEXT + SIZE * (i + 1) for i, name in enumerate(functions)}
        code = "\n".join([*calls, pad])
        for start, text in [(TEXT, code), *zip(self.starts.values(), functions.values())]:
            lines = [line.strip() for line in text.splitlines() if line.strip()]
            labels = {line.partition(": ")[0]: start + STEP * i for i, line in enumerate(lines) if ": " in line}
            for i, line in enumerate(lines):
                self._add(start + STEP * i, line.rpartition(": ")[2], labels)

    def _add(self, at: int, line: str, labels: dict[str, int]) -> None:
        match = re.match(r"(call|j\w+) (\w+)$", line)
        if match is not None:
            target = labels.get(match[2]) or self.starts.get(match[2]) or NAMES[match[2]]
            opcode = b"\xe8" if match[1] == "call" else b"\xe9"
            self.memory.write(at, opcode + (target - at - 5 & 0xFFFFFFFF).to_bytes(4, "little"))
            line = f"{match[1]} {target:#x}"
        elif "xchg" in line:
            self.memory.write(at, b"\x87\x00")
        self.lines[at] = line

    # what a Target and a Code offer
    cpu = x86_64

    @property
    def space(self) -> AddressSpace:
        return AddressSpace(())

    def module(self, address: int) -> Module | None:
        return MODULE if MODULE.contains(address) else None

    def function_range(self, pc: int) -> tuple[int, int] | None:
        start = pc & ~(SIZE - 1)
        return (start, start + SIZE) if MODULE.contains(pc) else None

    def starts_function(self, address: int) -> bool:
        return address % SIZE == 0

    def symbol(self, address: int, index: int = 0) -> Symbol:
        return Symbol(self.personality if address == self.personality_at else None)

    def exception_table(self, pc: int) -> ExceptionTable | None:
        return ExceptionTable(TABLE, self.personality_at, TEXT)

    def disassemble(self, low: int, high: int) -> list[tuple[int, int, str]]:
        found = [(at, STEP, self.lines[at]) for at in range(low, high, STEP) if at in self.lines]
        return found or [(low, STEP, "ret")]

    def cleanup(self, call: int = 0, **registers: int) -> Cleanup | None:
        target, code = cast(Target, self), cast(Code, self)
        guards = Guards(target, code, LockAnalysis(target, code, {}, inlined=self.dropped), self.dropped)
        return guards.find_cleanup(TEXT + STEP * call + 4, {"rsp": STACK, "rbp": LOCK, **registers})

    def released(self, **registers: int) -> set[int]:
        cleanup = self.cleanup(**registers)
        return set(cleanup.releases) if cleanup is not None else set()
