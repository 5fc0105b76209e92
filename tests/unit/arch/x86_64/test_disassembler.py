"""Instructions by capstone in the spelling of GDB."""

from __future__ import annotations

import sys

import pytest

from gdbext.arch.x86_64.disassembler import disassemble, spelled
from gdbext.errors import MissingLibrary

#: Machine code, and what GDB 13.1 prints of it.
SPELLINGS = [
    ("4889d8", "mov %rbx,%rax"),
    ("48c7042400000000", "movq $0x0,(%rsp)"),
    ("64c704251800000001000000", "movl $0x1,%fs:0x18"),
    ("ff5008", "call *0x8(%rax)"),
    ("488b44c8f8", "mov -0x8(%rax,%rcx,8),%rax"),
    ("64488b042508000000", "mov %fs:0x8,%rax"),
    ("f3410f7e4c2410", "movq 0x10(%r12),%xmm1"),
    ("488d1dc8ea1a00", "lea 0x1aeac8(%rip),%rbx"),
    ("83f8ff", "cmp $0xffffffff,%eax"),
    ("49837e08ff", "cmpq $0xffffffffffffffff,0x8(%r14)"),
    ("49bbf8bffffffffff7ff", "movabs $0xfff7ffffffffbff8,%r11"),
    ("d1e8", "shr %eax"),
    ("c1e801", "shr $0x1,%eax"),
    ("f3ab", "rep stos %eax,%es:(%rdi)"),
    ("f348a5", "rep movsq %ds:(%rsi),%es:(%rdi)"),
    ("f3a6", "repz cmpsb %es:(%rdi),%ds:(%rsi)"),
    ("f00fb117", "lock cmpxchg %edx,(%rdi)"),
    ("8707", "xchg %eax,(%rdi)"),
    ("0fb607", "movzbl (%rdi),%eax"),
    ("4863c7", "movslq %edi,%rax"),
    ("ff2540000000", "jmp *0x40(%rip)"),
    ("c3", "ret"),
    ("f30f1efa", "endbr64"),
]


def text_of(code: str) -> str:
    (_, size, text), = disassemble(bytes.fromhex(code), 0x1000)
    assert size == len(code) // 2
    return text


@pytest.mark.parametrize(("code", "text"), SPELLINGS, ids=[text for _, text in SPELLINGS])
def test_spelling_is_that_of_gdb(code: str, text: str) -> None:
    assert text_of(code) == text


def test_target_of_a_branch_has_its_name() -> None:
    names = {0x100A: "abort", 0x1007: "loop"}
    found = disassemble(bytes.fromhex("e805000000" "7500" "ffe0" "eb05"), 0x1000, names.get)
    assert [(at, size, " ".join(text.split())) for at, size, text in found] == [
        (0x1000, 5, "call 0x100a <abort>"), (0x1005, 2, "jne 0x1007 <loop>"), (0x1007, 2, "jmp *%rax"),
        (0x1009, 2, "jmp 0x1010")]


def test_disassembly_ends_before_what_is_no_instruction() -> None:
    assert [at for at, _, _ in disassemble(bytes.fromhex("90" "d6" "90"), 0x1000)] == [0x1000]


def test_prefixes_remain() -> None:
    assert spelled("lock xaddl", "%eax, (%rdi)", bytes.fromhex("f00fc107")) == "lock xadd %eax,(%rdi)"


def test_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from gdbext.arch.x86_64 import disassembler

    disassembler._capstone.cache_clear()
    monkeypatch.setitem(sys.modules, "capstone", None)
    with pytest.raises(MissingLibrary, match="capstone"):
        disassemble(b"\x90", 0)
    monkeypatch.undo()
    disassembler._capstone.cache_clear()
