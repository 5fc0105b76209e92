from __future__ import annotations

import re
from collections.abc import Sequence
from typing import cast

import pytest

from gdbext.arch import x86_64
from gdbext.arch.protocol import ExceptionTable
from gdbext.holders.guards import Cleanup, Guards
from gdbext.holders.lock_flow import LockFlow
from gdbext.holders.lock_state import Effect, entry
from gdbext.holders.pairs import Inlined
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

    def __init__(self, pad: str, actions: bytes = b"\0", personality: str | None = "__gxx_personality_v0",
                 dropped: Inlined | None = None, calls: Sequence[str] = ("call other",), **functions: str) -> None:
        # one range of calls, whose landing pad comes after it
        head = b"\xff\xff\x01\x04" + bytes((0, STEP * len(calls), STEP * len(calls))) + actions
        self.memory = FakeMemory({TEXT: b"\x90" * 0x4000, TABLE: head + bytes(32), STACK: bytes(0x200),
                                  PERSONALITY: b"\x90" * 16})
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

    def cleanup(self, hides_flags: bool = False, call: int = 0, **registers: int) -> Cleanup | None:
        target, code = cast(Target, self), cast(Code, self)
        guards = Guards(target, code, LockFlow(target, code, EFFECTS), dict.fromkeys(EFFECTS, "rdi"),
                        frozenset({NAMES["release"]}), {}, self.dropped)
        return guards.find_cleanup(TEXT + STEP * call + 4, {"rsp": STACK, "rbp": LOCK, **registers}, hides_flags)

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


BYTE = Inlined(1, frozenset(), frozenset(("compares",)))
COUNT = Inlined(8, frozenset(), frozenset(("compares", "adds")), subtracted=frozenset((16,)))
#: As the destructor of a guard of parking_lot: a function is called if threads wait for the lock.
DROPPED = """
    mov %rax,%rbx
    xor %ecx,%ecx
    mov $0x1,%eax
    lock cmpxchg %cl,(%rbp)
    jne slow
    end: mov %rbx,%rdi
    call resume
    slow: mov %rbp,%rdi
    call other
    jmp end
"""
RELOCKED = DROPPED.replace("xor %ecx,%ecx", "mov $0x1,%ecx\nxor %eax,%eax\nlock cmpxchg %cl,(%rbp)\nxor %ecx,%ecx")


def frame_of_rust(pad: str, dropped: Inlined | None = BYTE, calls: Sequence[str] = ("call other",)) -> Frame:
    frame = Frame(pad, personality="rust_eh_personality", dropped=dropped, calls=calls)
    frame.memory.map(LOCK, bytes(0x40))
    return frame


def test_guard_of_rust_is_destroyed_by_an_atomic_instruction() -> None:
    cleanup = frame_of_rust(DROPPED).cleanup()
    assert cleanup == Cleanup({LOCK: TEXT + STEP * 4}, frozenset({LOCK}), helpers=frozenset({NAMES["other"]}))
    assert not frame_of_rust(DROPPED, None).released()


def test_lock_that_the_landing_pad_acquires_again_was_given_back() -> None:
    cleanup = frame_of_rust(RELOCKED).cleanup()
    assert cleanup is not None
    assert (cleanup.releases, cleanup.all) == ({}, frozenset())


@pytest.mark.parametrize(("exchange", "released"), [
    ("mov $0xfffffffffffffff0,%rcx\nlock xadd %rcx,(%rbp)", {LOCK}),
    ("lock subq $0x10,(%rbp)", {LOCK}),
    ("lock decq (%rbp)", set()),  # a count of references
    ("mov %r14,%rcx\nlock xadd %rcx,(%rbp)", set()),
    ("lock cmpxchg %cl,(%rbp)", set()),  # of another size
])
def test_guard_of_a_reader_subtracts_its_count(exchange: str, released: set[int]) -> None:
    cleanup = frame_of_rust(f"mov %rax,%rbx\n{exchange}\n{RESUME}", COUNT).cleanup()
    assert cleanup is not None
    assert cleanup.releases.keys() == cleanup.shared == released


def test_exchange_at_an_unknown_address_may_acquire_any_lock() -> None:
    assert frame_of_rust(DROPPED.replace("xor %ecx,%ecx", "xor %ecx,%ecx\nlock cmpxchg %dl,(%r14)")).cleanup() is None


@pytest.mark.parametrize(("name", "address", "is_known"), [
    ("rust_eh_personality", PERSONALITY, True),
    ("std::sys::personality::gcc::rust_eh_personality", PERSONALITY, True),
    (None, TEXT + 0x3F00, True),  # in a stripped program
    (None, PERSONALITY, False),
    ("__gnat_personality_v0", TEXT + 0x3F00, False),
])
def test_personality_of_rust_may_have_no_name(name: str | None, address: int, is_known: bool) -> None:
    frame = frame_of_rust(DROPPED)
    frame.personality, frame.personality_at = name, address
    assert frame.released() == ({LOCK} if is_known else set())


@pytest.mark.parametrize(("calls", "throws"), [
    (("call acquire", "nop", "call other"), [True, True]),
    # what exists during the first call exists during the second
    (("call acquire", "call release", "call other"), [True, True, True]),
    # the second may throw nothing, so the third one may destroy the guard
    (("call acquire", "call release", "call release", "call other"), [True, True, False, True]),
    (("call acquire", "call other", "call release", "call other"), [True, True, True, True]),
    (("call *%rbx", "call *%rbx", "call *%rbx", "call *%rbx"), [True, True, False, True]),
    # the code between them destroys the guard, may come from elsewhere, or may be passed over
    (("call acquire", "lock cmpxchg %dl,(%r14)", "call release", "call other"), [True, False, True]),
    (("call acquire", "label: nop", "call release", "call other", "jne label"), [True, False, True]),
    (("call acquire", "jne label", "call release", "label: nop", "call other"), [True, False, True]),
    (("call acquire", "nop", "call release", "call other", "jmp *%rcx"), [True, False, True]),
])
def test_call_between_others_may_have_no_landing_pad(calls: tuple[str, ...], throws: list[bool]) -> None:
    frame = frame_of_rust(DROPPED, calls=calls)
    at = [i for i, line in enumerate(calls) if line.startswith("call")]
    assert [frame.cleanup(call=i) is not None for i in at] == throws
    in_cxx = Frame(RELEASES, calls=calls)
    assert [in_cxx.cleanup(call=i) is not None for i in at] == [True] * len(throws)
