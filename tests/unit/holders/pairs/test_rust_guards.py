from __future__ import annotations

import re
from collections.abc import Sequence
from typing import cast

import pytest

from gdbext.arch import x86_64
from gdbext.arch.protocol import ExceptionTable
from gdbext.holders.guards import Cleanup, Guards
from gdbext.holders.lock_flow import LockFlow
from gdbext.holders.pairs import Inlined
from gdbext.inferior.address_space import AddressSpace
from gdbext.inferior.protocol import Module, Section, Symbol, Target
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
        guards = Guards(target, code, LockFlow(target, code, {}, inlined=self.dropped), self.dropped)
        return guards.find_cleanup(TEXT + STEP * call + 4, {"rsp": STACK, "rbp": LOCK, **registers})

    def released(self, **registers: int) -> set[int]:
        cleanup = self.cleanup(**registers)
        return set(cleanup.releases) if cleanup is not None else set()


RELEASES = f"mov %rax,%rbx\n{RELEASE.format('%rbp')}\n{RESUME}"


def test_lock_that_the_landing_pad_releases_is_found() -> None:
    assert Frame(RELEASES).released() == {LOCK}
    assert Frame(RELEASES).released(rbp=LOCK + 8) == {LOCK + 8}


@pytest.mark.parametrize("test", ["cmpb $0x0,0x10(%rsp)", "test %r12b,%r12b"])
def test_guard_that_was_dropped_already_releases_nothing(test: str) -> None:
    """The compiler keeps a flag for it."""
    frame = Frame(f"mov %rax,%rbx\n{test}\nje end\n{RELEASE.format('%rbp')}\nend: mov %rbx,%rdi\ncall resume")
    assert frame.released(r12=0) == set()
    frame.memory.write(STACK + 0x10, b"\1")
    assert frame.released(r12=1) == {LOCK}


def test_release_on_one_of_two_paths_is_no_release() -> None:
    pad = f"mov %rax,%rbx\ntest %r14,%r14\nje end\n{RELEASE.format('%rbp')}\nend: mov %rbx,%rdi\ncall resume"
    cleanup = Frame(pad).cleanup()
    assert cleanup == Cleanup(frozenset())


def test_handler_is_not_followed() -> None:
    """The function that begins it gets the exception."""
    assert Frame(f"mov %rax,%rdi\ncall other\n{RELEASE.format('%rbp')}\n{RESUME}").released() == set()


def test_landing_pad_without_cleanup_is_not_followed() -> None:
    """Action 1: type filter 1, no further action."""
    assert Frame(RELEASES, actions=b"\1\1\0").released() == set()
    assert Frame(RELEASES, actions=b"\1\0\0").released() == {LOCK}


def test_destructor_in_a_function_of_its_own_is_followed() -> None:
    frame = Frame(f"mov %rax,%rbx\nlea 0x8(%rsp),%rdi\ncall destroy\n{RESUME}",
                  destroy=f"cmpb $0x0,0x8(%rdi)\nje end\nmov (%rdi),%rdi\n{RELEASE.format('%rdi')}\nend: ret")
    frame.memory.u64(STACK + 8, LOCK, 1)
    assert frame.released() == {LOCK}
    frame.memory.u64(STACK + 8, LOCK, 0)
    assert frame.released() == set()


@pytest.mark.parametrize("pad", [
    f"mov %rax,%rbx\ncall *%r14\n{RELEASE.format('%rbp')}\n{RESUME}",
    f"mov %rax,%rbx\n{RELEASE.format('%r14')}\n{RESUME}",
    "loop: jmp loop",
    f"{RELEASE.format('%rbp')}\nret",
], ids=["unknown call", "unknown lock", "endless", "returns"])
def test_path_that_cannot_be_followed_proves_nothing(pad: str) -> None:
    assert Frame(pad).cleanup() is None


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


def test_guard_of_rust_is_destroyed_by_an_atomic_instruction() -> None:
    cleanup = Frame(DROPPED).cleanup()
    assert cleanup == Cleanup(frozenset({LOCK}), helpers=frozenset({NAMES["other"]}))


def test_lock_that_the_landing_pad_acquires_again_was_given_back() -> None:
    cleanup = Frame(RELOCKED).cleanup()
    assert cleanup is not None
    assert not cleanup.releases


@pytest.mark.parametrize(("exchange", "released"), [
    ("mov $0xfffffffffffffff0,%rcx\nlock xadd %rcx,(%rbp)", {LOCK}),
    ("lock subq $0x10,(%rbp)", {LOCK}),
    ("lock decq (%rbp)", set()),  # a count of references
    ("mov %r14,%rcx\nlock xadd %rcx,(%rbp)", set()),
    ("lock cmpxchg %cl,(%rbp)", set()),  # of another size
])
def test_guard_of_a_reader_subtracts_its_count(exchange: str, released: set[int]) -> None:
    cleanup = Frame(f"mov %rax,%rbx\n{exchange}\n{RESUME}", dropped=COUNT).cleanup()
    assert cleanup is not None
    assert cleanup.releases == cleanup.shared == released


def test_exchange_at_an_unknown_address_may_acquire_any_lock() -> None:
    assert Frame(DROPPED.replace("xor %ecx,%ecx", "xor %ecx,%ecx\nlock cmpxchg %dl,(%r14)")).cleanup() is None


@pytest.mark.parametrize(("name", "address", "is_known"), [
    ("rust_eh_personality", PERSONALITY, True),
    ("std::sys::personality::gcc::rust_eh_personality", PERSONALITY, True),
    (None, TEXT + 0x3F00, True),  # in a stripped program
    (None, PERSONALITY, False),
    ("__gnat_personality_v0", TEXT + 0x3F00, False),
    ("__gxx_personality_v0", PERSONALITY, False),
])
def test_personality_of_rust_may_have_no_name(name: str | None, address: int, is_known: bool) -> None:
    frame = Frame(DROPPED)
    frame.personality, frame.personality_at = name, address
    assert frame.released() == ({LOCK} if is_known else set())


@pytest.mark.parametrize(("calls", "throws"), [
    (("call drop", "nop", "call other"), [True, True]),
    # what exists during the first call exists during the second
    (("call drop", "call send", "call other"), [True, True, True]),
    # the second may throw nothing, so the third one may destroy the guard
    (("call drop", "call send", "call send", "call other"), [True, True, False, True]),
    (("call drop", "call other", "call send", "call other"), [True, True, True, True]),
    (("call *%rbx", "call *%rbx", "call *%rbx", "call *%rbx"), [True, True, False, True]),
    # the code between them destroys the guard, may come from elsewhere, or may be passed over
    (("call drop", "lock cmpxchg %dl,(%r14)", "call send", "call other"), [True, False, True]),
    (("call drop", "label: nop", "call send", "call other", "jne label"), [True, False, True]),
    (("call drop", "jne label", "call send", "label: nop", "call other"), [True, False, True]),
    (("call drop", "nop", "call send", "call other", "jmp *%rcx"), [True, False, True]),
])
def test_call_between_others_may_have_no_landing_pad(calls: tuple[str, ...], throws: list[bool]) -> None:
    frame = Frame(DROPPED, calls=calls)
    at = [i for i, line in enumerate(calls) if line.startswith("call")]
    assert [frame.cleanup(call=i) is not None for i in at] == throws
