"""A small program in assembler text, for tests of the analysis of locks in machine code."""

from __future__ import annotations

import re
from typing import cast

from gdbext.arch import x86_64
from gdbext.holders.pairs import pairs_of
from gdbext.inferior.address_space import AddressSpace
from gdbext.inferior.protocol import Module, Section, Target
from gdbext.proofs.analysis import LockAnalysis
from gdbext.proofs.flow.atomics import Inlined
from gdbext.proofs.flow.state import State, Value, entry
from gdbext.proofs.flow.summaries import Summary
from gdbext.threads.code import Code
from tests.support.fake_memory import FakeMemory

TEXT, STEP, FUNCTION = 0x40_1000, 8, 0x400
TABLE = 0x40_8000
LINKS = 0x40_9000
LOCK = 0x40_A000
MODULE = Module("/app/server", (Section(".text", TEXT, TEXT + 0x4000), Section(".rodata", TABLE, TABLE + 0x400),
                                Section(".got", LINKS, LINKS + 0x100)), is_main=True)
ACQUIRE, RELEASE, OTHER = TEXT + 0x3000, TEXT + 0x3100, TEXT + 0x3200
TRY, TEST, WAIT, ASK = TEXT + 0x3300, TEXT + 0x3400, TEXT + 0x3500, TEXT + 0x3600
NAMES = {"acquire": ACQUIRE, "release": RELEASE, "other": OTHER, "try": TRY, "test": TEST, "wait": WAIT, "ask": ASK}
#: `try` returns zero if it has acquired the lock, and `test` returns zero if it has not. So does `ask`, which waits for
#: the lock if its second argument is not 0. `wait` waits for a condition.
EFFECTS = {ACQUIRE: Summary(acquires={entry("rdi"): frozenset()}), RELEASE: Summary(releases=(entry("rdi"),)),
           TRY: Summary(attempt=(entry("rdi"), True)), TEST: Summary(attempt=(entry("rdi"), False)),
           WAIT: Summary(suspends=True), ASK: Summary(attempt=(entry("rdi"), False), wait_flag="rsi")}


class Program:
    """Functions in AT&T syntax, an instruction a line; ``L: ...`` is a label, ``call f`` and ``jmp f`` take names.

    What has a name with ``part`` is not a function, by its frame description, but a part of one.
    """

    #: The instructions that acquire and release locks, and whether the locks that some path has acquired are noted.
    inlined: Inlined | None = None
    notes_taken = False

    def __init__(self, **functions: str) -> None:
        self.memory = FakeMemory({TEXT: b"\x90" * 0x4000, TABLE: bytes(0x400), LINKS: bytes(0x100)})
        self.starts = {name: TEXT + FUNCTION * i for i, name in enumerate(functions)}
        self.labels: dict[tuple[str, str], int] = {}
        self.lines: dict[int, str] = {}
        self.ends: dict[int, int] = {}
        for name, text in functions.items():
            at = self.starts[name]
            for line in filter(None, map(str.strip, text.splitlines())):
                label, _, rest = line.rpartition(": ")
                if label:
                    self.labels[name, label] = at
                self.lines[at] = rest
                if "xchg" in rest:
                    self.memory.write(at, b"\x87\x00")
                elif rest.startswith("lock"):
                    self.memory.write(at, b"\xf0\xff\x0f")
                at += STEP
            self.ends[self.starts[name]] = at
        for name in functions:
            self._link(name)

    def _link(self, name: str) -> None:
        start = self.starts[name]
        for at in range(start, self.ends[start], STEP):
            match = re.match(r"(call|j\w+) (\w+)$", self.lines[at])
            if match is None:
                continue
            everywhere = {label: at for (_, label), at in self.labels.items()}
            target = (self.labels.get((name, match[2])) or self.starts.get(match[2]) or NAMES.get(match[2])
                      or everywhere[match[2]])
            self.lines[at] = f"{match[1]} {target:#x}"
            opcode = b"\xe8" if match[1] == "call" else b"\xe9"
            self.memory.write(at, opcode + (target - at - 5 & 0xFFFFFFFF).to_bytes(4, "little"))

    # what a Target and a Code offer
    cpu = x86_64

    @property
    def space(self) -> AddressSpace:
        return AddressSpace(())

    def module(self, address: int) -> Module | None:
        return MODULE if MODULE.contains(address) else None

    def function_range(self, pc: int) -> tuple[int, int] | None:
        for start, end in self.ends.items():
            if start <= pc < end:
                return start, end
        return (pc & ~0xFF, (pc & ~0xFF) + 0x100) if TEXT + 0x3000 <= pc < TEXT + 0x4000 else None

    def starts_function(self, address: int) -> bool:
        return address not in {start for name, start in self.starts.items() if name.startswith("part")}

    def disassemble(self, low: int, high: int) -> list[tuple[int, int, str]]:
        found = [(at, STEP, self.lines[at]) for at in range(low, high, STEP) if at in self.lines]
        return found or [(low, STEP, "ret")]

    def state(self, function: str = "f", label: str = "here", entered: str | None = None) -> State | None:
        flow = LockAnalysis(cast(Target, self), cast(Code, self), EFFECTS, inlined=self.inlined,
                            notes_taken=self.notes_taken)
        return flow.held_at(self.labels[function, label], self.starts[entered] if entered is not None else None)

    def held(self, function: str = "f", label: str = "here") -> set[Value]:
        state = self.state(function, label)
        return set(state.held) if state is not None else set()


class AtomicProgram(Program):
    """A program that acquires and releases locks, words of 4 bytes, by atomic instructions."""

    inlined = pairs_of("rust-mutex").inlined


class ByteProgram(Program):
    """The same with mutexes of CPython."""

    inlined = pairs_of("py-mutex").inlined


class BoolProgram(Program):
    """The same with mutexes of oneTBB."""

    inlined = pairs_of("tbb-mutex").inlined


class RwLockProgram(Program):
    """The same with read-write locks."""

    inlined = pairs_of("rust-rwlock").inlined


ARGUMENT = {entry("rdi")}
KEEP = """
    push %rbx
    mov %rdi,%rbx
"""
HOLDING = f"""
    {KEEP}
    call acquire
    here: call other
    mov %rbx,%rdi
    call release
    pop %rbx
    after: ret
"""
