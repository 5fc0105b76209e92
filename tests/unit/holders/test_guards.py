from __future__ import annotations

import re
from typing import cast

import pytest

from gdbext.arch import x86_64
from gdbext.arch.protocol import ExceptionTable
from gdbext.holders.guards import Cleanup, Guards
from gdbext.holders.lock_flow import LockFlow
from gdbext.holders.lock_state import Effect, entry
from gdbext.inferior.address_space import AddressSpace
from gdbext.inferior.protocol import Module, Section, Symbol, Target
from gdbext.threads.code import Code
from tests.support.fake_memory import FakeMemory

TEXT, STEP, SIZE = 0x40_1000, 8, 0x100
TABLE, PERSONALITY, STACK, LOCK = 0x40_8000, 0x40_7000, 0x7F00_0000, 0x5000
MODULE = Module("/app/server", (Section(".text", TEXT, TEXT + 0x4000),), is_main=True)
NAMES = {"acquire": TEXT + 0x3000, "release": TEXT + 0x3100, "other": TEXT + 0x3200, "resume": TEXT + 0x3300}
EFFECTS = {NAMES["acquire"]: Effect(acquires={entry("rdi"): frozenset()}),
           NAMES["release"]: Effect(releases=(entry("rdi"),))}
RESUME = "mov %rbx,%rdi\ncall resume"


class Frame:
    """A frame whose call has a landing pad of the given lines; the other functions are called by it."""

    def __init__(self, pad: str, actions: bytes = b"\0", personality: str = "__gxx_personality_v0",
                 **functions: str) -> None:
        # one call site: the first 16 bytes, whose landing pad is at +8
        head = b"\xff\xff\x01\x04" + b"\0\x10\x08" + actions[:1] + actions[1:]
        self.memory = FakeMemory({TEXT: b"\x90" * 0x4000, TABLE: head + bytes(32), STACK: bytes(0x200),
                                  PERSONALITY: b"\x90" * 16})
        self.personality = personality
        self.lines: dict[int, str] = {TEXT: "call other"}
        self.starts = {name: TEXT + SIZE * (i + 1) for i, name in enumerate(functions)}
        for start, text in [(TEXT + STEP, pad), *zip(self.starts.values(), functions.values())]:
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
        return Symbol(self.personality if address == PERSONALITY else None)

    def exception_table(self, pc: int) -> ExceptionTable | None:
        return ExceptionTable(TABLE, PERSONALITY, TEXT)

    def disassemble(self, low: int, high: int) -> list[tuple[int, int, str]]:
        found = [(at, STEP, self.lines[at]) for at in range(low, high, STEP) if at in self.lines]
        return found or [(low, STEP, "ret")]

    def cleanup(self, hides_flags: bool = False, **registers: int) -> Cleanup | None:
        target, code = cast(Target, self), cast(Code, self)
        guards = Guards(target, code, LockFlow(target, code, EFFECTS), dict.fromkeys(EFFECTS, "rdi"),
                        frozenset({NAMES["release"]}), {})
        return guards.find_cleanup(TEXT + 4, {"rsp": STACK, "rbp": LOCK, **registers}, hides_flags)

    def released(self, hides_flags: bool = False, **registers: int) -> set[int]:
        cleanup = self.cleanup(hides_flags, **registers)
        return set(cleanup.releases) if cleanup is not None else set()


RELEASES = f"mov %rax,%rbx\nmov %rbp,%rdi\ncall release\n{RESUME}"
FLAG = """
    mov %rax,%rbx
    cmpb $0x0,0x10(%rsp)
    je end
    mov %rbp,%rdi
    call release
    end: mov %rbx,%rdi
    call resume
"""


def test_lock_that_the_landing_pad_releases_is_found() -> None:
    assert Frame(RELEASES).released() == {LOCK}
    assert Frame(RELEASES).released(rbp=LOCK + 8) == {LOCK + 8}


def test_guard_that_does_not_own_its_lock_releases_nothing() -> None:
    frame = Frame(FLAG)
    assert frame.released() == set()
    frame.memory.write(STACK + 0x10, b"\1")
    assert frame.released() == {LOCK}


def test_release_that_depends_on_a_flag_is_not_certain_without_it() -> None:
    frame = Frame(FLAG)
    frame.memory.write(STACK + 0x10, b"\1")
    assert frame.released(hides_flags=True) == set()
    assert Frame(RELEASES).released(hides_flags=True) == {LOCK}
    in_register = Frame(FLAG.replace("cmpb $0x0,0x10(%rsp)", "test %r12b,%r12b"))
    assert in_register.released(r12=1) == {LOCK}
    assert in_register.released(hides_flags=True, r12=1) == set()


def test_release_on_one_of_two_paths_is_no_release() -> None:
    frame = Frame(FLAG.replace("cmpb $0x0,0x10(%rsp)", "test %r14,%r14"))
    cleanup = frame.cleanup()
    assert cleanup is not None
    assert not cleanup.releases
    assert cleanup.all == frozenset({LOCK})


def test_handler_is_not_followed() -> None:
    """The function that begins it gets the exception."""
    pad = f"mov %rax,%rdi\ncall other\nmov %rbp,%rdi\ncall release\n{RESUME}"
    assert Frame(pad).released() == set()


def test_landing_pad_without_cleanup_is_not_followed() -> None:
    """Action 1: type filter 1, no further action."""
    assert Frame(RELEASES, actions=b"\1\1\0").released() == set()
    assert Frame(RELEASES, actions=b"\1\0\0").released() == {LOCK}


@pytest.mark.parametrize(("personality", "counts"), [
    ("__gcc_personality_v0", True), ("rust_eh_personality", True), ("__objc_personality_v0", False)])
def test_only_known_personalities_count(personality: str, counts: bool) -> None:
    assert bool(Frame(RELEASES, personality=personality).released()) == counts


def test_destructor_that_acquires_first_releases_nothing() -> None:
    """A reverse guard has released the lock."""
    pad = f"mov %rax,%rbx\nmov %rbp,%rdi\ncall acquire\nmov %rbp,%rdi\ncall release\n{RESUME}"
    assert Frame(pad).released() == set()


def test_destructor_in_a_function_of_its_own_is_followed() -> None:
    frame = Frame(f"mov %rax,%rbx\nlea 0x8(%rsp),%rdi\ncall destroy\n{RESUME}",
                  destroy="cmpb $0x0,0x8(%rdi)\nje end\nmov (%rdi),%rdi\ncall release\nend: ret")
    frame.memory.u64(STACK + 8, LOCK, 1)
    assert frame.released() == {LOCK}
    frame.memory.u64(STACK + 8, LOCK, 0)
    assert frame.released() == set()


@pytest.mark.parametrize("pad", [
    f"mov %rax,%rbx\ncall *%r14\nmov %rbp,%rdi\ncall release\n{RESUME}",
    f"mov %rax,%rbx\nmov %r14,%rdi\ncall release\n{RESUME}",
    "loop: jmp loop",
    "mov %rbp,%rdi\ncall release\nret",
], ids=["unknown call", "unknown lock", "endless", "returns"])
def test_path_that_cannot_be_followed_proves_nothing(pad: str) -> None:
    assert Frame(pad).cleanup() is None
