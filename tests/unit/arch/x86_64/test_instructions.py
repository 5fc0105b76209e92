from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from gdbext.arch.protocol import Access, Exchange
from gdbext.arch.x86_64.instructions import Instruction, MemoryOperand, canonical, parse
from gdbext.arch.x86_64.registers import ARGUMENTS, CALLEE_SAVED, CALLER_SAVED, GENERAL
from tests.support import combinations

AT, SIZE = 0x5555_5555_5000, 4


def one(text: str) -> Instruction:
    return parse(AT, SIZE, text)


def memory(text: str) -> MemoryOperand:
    operand = one(f"mov {text},%rax").memory
    assert isinstance(operand, MemoryOperand)
    return operand


# -- text ----------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize(("text", "mnemonic", "operands", "prefixes"), [
    ("mov    0x2ee2(%rip),%rax        # 0x555555557ff0", "mov", (MemoryOperand(None, 0x2EE2, "rip"), "rax"), ()),
    ("mov    %fs:0x28,%rax", "mov", (MemoryOperand("fs", 0x28), "rax"), ()),
    ("mov    %fs:0xfffffffffffffff8,%rax", "mov", (MemoryOperand("fs", -8), "rax"), ()),
    ("mov    %fs:-0x8(%rax,%rbx,1),%ecx", "mov", (MemoryOperand("fs", -8, "rax", "rbx"), "ecx"), ()),
    ("lea    0x0(,%rax,8),%rbx", "lea", (MemoryOperand(None, 0, None, "rax", 8), "rbx"), ()),
    ("lea    (%rsi,%riz,1),%rsi", "lea", (MemoryOperand(None, 0, "rsi", "riz"), "rsi"), ()),
    ("mov    0x1234,%eax", "mov", (MemoryOperand(None, 0x1234), "eax"), ()),
    ("movabs $0x1122334455667788,%rax", "movabs", (0x1122334455667788, "rax"), ()),
    ("movabs %al,0x1122334455667788", "movabs", ("al", MemoryOperand(None, 0x1122334455667788)), ()),
    ("call   *0x18(%rax)", "call", (MemoryOperand(None, 0x18, "rax"),), ()),
    ("callq  *%rax", "call", ("rax",), ()),
    ("retq   ", "ret", (), ()),
    ("repz retq", "ret", (), ("repz",)),
    ("rep stos %al,%es:(%rdi)", "stos", ("al", MemoryOperand("es", 0, "rdi")), ("rep",)),
    ("lock cmpxchg %rdx,(%rdi)", "cmpxchg", ("rdx", MemoryOperand(None, 0, "rdi")), ("lock",)),
    ("xrelease movl $0x0,(%rdi)", "movl", (0, MemoryOperand(None, 0, "rdi")), ("xrelease",)),
    ("vmovdqu64 (%rsi),%zmm16{%k1}{z}", "vmovdqu64", (MemoryOperand(None, 0, "rsi"), "zmm16"), ()),
    ("vaddps (%rax){1to16},%zmm1,%zmm2", "vaddps", (MemoryOperand(None, 0, "rax"), "zmm1", "zmm2"), ()),
    ("vaddps {rn-sae},%zmm1,%zmm2,%zmm3", "vaddps", ("zmm1", "zmm2", "zmm3"), ()),
    ("{evex} vpslld $0x1,0x8(%rax),%xmm3", "vpslld", (1, MemoryOperand(None, 8, "rax"), "xmm3"), ("{evex}",)),
    ("notrack jmp *%rax", "jmp", ("rax",), ("notrack",)),
    ("notrack jmp *0x5020(,%rax,8)", "jmp", (MemoryOperand(None, 0x5020, None, "rax", 8),), ("notrack",)),
    ("data16 cs nopw 0x0(%rax,%rax,1)", "nopw", (MemoryOperand(None, 0, "rax", "rax"),), ("data16", "cs")),
    ("data16 lea 0x1f2d(%rip),%rdi", "lea", (MemoryOperand(None, 0x1F2D, "rip"), "rdi"), ("data16",)),
    ("rex.W call 0x401030 <__tls_get_addr@plt>", "call", (0x401030,), ("rex.W",)),
    ("ja,pt  0x401030", "ja", (0x401030,), ()),
    ("outsb  %ds:(%rsi),(%dx)", "outsb", (MemoryOperand("ds", 0, "rsi"), "dx"), ()),
    ("fxch   %st(2)", "fxch", ("st(2)",), ()),
    ("in     (%dx),%eax", "in", ("dx", "eax"), ()),
    ("mov    $0xffffffffffffffff,%rax", "mov", (0xFFFFFFFFFFFFFFFF, "rax"), ()),
    ("nop", "nop", (), ()),
    ("lock", "lock", (), ()),
    ("(bad)", "(bad)", (), ()),
    (".byte 0x6", ".byte", (), ()),
    ("", "", (), ()),
    ("mov    (%rax", "mov", (), ()),
    ("mov    $x,%rax", "mov", (), ()),
    ("mov    %,\x00", "mov", (), ()),
    ("jmp    elsewhere", "jmp", (), ()),
    ("# <", "", (), ()),
])
def test_parse(text: str, mnemonic: str, operands: tuple[object, ...], prefixes: tuple[str, ...]) -> None:
    instruction = one(text)
    assert (instruction.mnemonic, instruction.operands, instruction.prefixes) == (mnemonic, operands, prefixes)
    # must not raise for any text
    instruction.accesses()
    assert instruction.written <= set(GENERAL)
    assert instruction.alignment is None or instruction.memory is not None
    assert instruction.next_address == AT + SIZE


@pytest.mark.parametrize(("text", "kept", "symbol"), [
    ("call   0x7ffff7c8 <malloc@plt>", "call 0x7ffff7c8", "malloc@plt"),
    ("mov    0x2ee2(%rip),%rax        # 0x555555557ff0 <PyExc_TypeError@got.plt>", "mov 0x2ee2(%rip),%rax",
     "PyExc_TypeError@got.plt"),
    ("jmp    0x1234 <std::map<int, char>::find(int const&)+12>", "jmp 0x1234",
     "std::map<int, char>::find(int const&)+12"),
    ("call   0x1234 <core::ops::{closure#0}(&str)>", "call 0x1234", "core::ops::{closure#0}(&str)"),
    ("lea    0x10(%rip),%rdi        # 0x20 <f::{closure#0}>", "lea 0x10(%rip),%rdi", "f::{closure#0}"),
    ("mov    0x2ee2(%rip),%rax        # 0x555555557ff0", "mov 0x2ee2(%rip),%rax", None),
    ("push   %rbp", "push %rbp", None),
])
def test_parse_separates_symbols_and_comments(text: str, kept: str, symbol: str | None) -> None:
    assert (one(text).text, one(text).symbol) == (kept, symbol)


def test_canonical_returns_the_whole_register() -> None:
    assert [canonical(name) for name in ("eax", "ah", "spl", "r9d", "r10b", "rbx", "eip", "xmm3")] == [
        "rax", "rax", "rsp", "r9", "r10", "rbx", "rip", "xmm3"]
    assert CALLER_SAVED.isdisjoint(CALLEE_SAVED)
    assert CALLER_SAVED.union(CALLEE_SAVED, ["rsp"]) == set(GENERAL)
    assert CALLER_SAVED.issuperset(ARGUMENTS)


# -- addresses -----------------------------------------------------------------------------------------------------

REGISTERS = {"rax": 0x1_0000_0010, "rbx": 0xFFFF_FFFF_FFFF_FFFF, "rcx": 3, "fs_base": 0x7F00_0000_0740}


@pytest.mark.parametrize(("text", "address", "used"), [
    ("(%rax)", 0x1_0000_0010, {"rax"}),
    ("-0x8(%rax,%rcx,4)", 0x1_0000_0014, {"rax", "rcx"}),
    ("0x1(%rbx)", 0, {"rbx"}),
    ("0x0(,%rcx,8)", 24, {"rcx"}),
    ("(%rax,%riz,1)", 0x1_0000_0010, {"rax"}),
    ("0x2ee2(%rip)", AT + SIZE + 0x2EE2, set()),
    ("-0x2(%eip)", (AT + SIZE - 2) & 0xFFFFFFFF, set()),
    ("0x1234", 0x1234, set()),
    ("0xffffffffff600000", 0xFFFF_FFFF_FF60_0000, set()),
    ("%fs:0x28", 0x7F00_0000_0768, {"fs_base"}),
    ("%fs:0xfffffffffffffff8", 0x7F00_0000_0738, {"fs_base"}),
    ("%fs:(%rcx)", 0x7F00_0000_0743, {"fs_base", "rcx"}),
    ("%ds:(%rcx)", 3, {"rcx"}),
    ("(%eax,%ecx,1)", 0x13, {"rax", "rcx"}),
    ("-0x4(%ecx)", 0xFFFFFFFF, {"rcx"}),
    ("%gs:0x10", None, {"gs_base"}),
    ("(%rdx)", None, {"rdx"}),
    ("(%rax,%xmm2,4)", None, {"rax", "xmm2"}),
])
def test_effective_address(text: str, address: int | None, used: set[str]) -> None:
    operand = memory(text)
    assert operand.address(REGISTERS, AT + SIZE) == address
    assert operand.registers == used


@pytest.mark.parametrize("text", ["(%rax)", "-0x8(%rax,%rcx,4)", "0x0(,%rcx,8)", "0x2ee2(%rip)", "0x1234", "%fs:0x28",
                                  "%fs:-0x8(%rcx)", "(%rax,%rbx,1)", "0xffffffffff600000"])
def test_operand_text_is_that_of_the_debugger(text: str) -> None:
    assert memory(text).text == text


# -- accesses ------------------------------------------------------------------------------------------------------

def accessed(text: str) -> list[str]:
    return [f"{access.kind} {access.size} {access.operand.text}" for access in one(text).accesses()]


@pytest.mark.parametrize(("text", "expected"), [
    # plain ones
    ("mov    0x8(%rax),%ecx", ["read 4 0x8(%rax)"]),
    ("mov    %cl,(%rax)", ["write 1 (%rax)"]),
    ("movq   $0x0,(%rax)", ["write 8 (%rax)"]),
    ("movw   $0x1,(%rax)", ["write 2 (%rax)"]),
    ("mov    %ds,(%rax)", ["write 2 (%rax)"]),
    ("mov    %fs:0x28,%rax", ["read 8 %fs:0x28"]),
    ("movzbl 0x10(%rax),%ecx", ["read 1 0x10(%rax)"]),
    ("movzwl (%rax),%ecx", ["read 2 (%rax)"]),
    ("movslq (%rax,%rcx,4),%rcx", ["read 4 (%rax,%rcx,4)"]),
    ("movsbq (%rax),%rcx", ["read 1 (%rax)"]),
    ("cmpl   $0x1,(%rdi)", ["read 4 (%rdi)"]),
    ("cmp    %rax,(%rdi)", ["read 8 (%rdi)"]),
    ("test   %al,(%rdi)", ["read 1 (%rdi)"]),
    ("imul   $0x3,(%rax),%ecx", ["read 4 (%rax)"]),
    ("divq   (%rax)", ["read 8 (%rax)"]),
    ("cmove  (%rax),%rcx", ["read 8 (%rax)"]),
    ("sete   0x7(%rsp)", ["write 1 0x7(%rsp)"]),
    ("setl   (%rax)", ["write 1 (%rax)"]),
    ("crc32w (%rax),%ecx", ["read 2 (%rax)"]),
    # read, modified, written
    ("addl   $0x1,(%rax)", ["read 4 (%rax)", "write 4 (%rax)"]),
    ("lock incq (%rdi)", ["read 8 (%rdi)", "write 8 (%rdi)"]),
    ("lock cmpxchg %edx,(%rdi)", ["read 4 (%rdi)", "write 4 (%rdi)"]),
    ("lock cmpxchg16b (%rdi)", ["read 16 (%rdi)", "write 16 (%rdi)"]),
    ("xchg   %rax,(%rdi)", ["read 8 (%rdi)", "write 8 (%rdi)"]),
    ("lock xadd %eax,0x4(%rdi)", ["read 4 0x4(%rdi)", "write 4 0x4(%rdi)"]),
    ("shll   %cl,(%rax)", ["read 4 (%rax)", "write 4 (%rax)"]),
    ("subb   $0x1,(%rax)", ["read 1 (%rax)", "write 1 (%rax)"]),
    ("lock btsl $0x3,(%rdi)", ["read 4 (%rdi)", "write 4 (%rdi)"]),
    ("bts    %rax,(%rdi)", ["read None (%rdi)", "write None (%rdi)"]),
    # none
    ("lea    0x8(%rax),%rcx", []),
    ("nopw   0x0(%rax,%rax,1)", []),
    ("prefetcht0 0x40(%rdi)", []),
    ("xor    %eax,%eax", []),
    ("jmp    0x401000", []),
    # stack
    ("push   %rbp", ["write 8 -0x8(%rsp)"]),
    ("pushq  $0x5", ["write 8 -0x8(%rsp)"]),
    ("push   0x8(%rsp)", ["read 8 0x8(%rsp)", "write 8 -0x8(%rsp)"]),
    ("push   %ax", ["write 2 -0x2(%rsp)"]),
    ("pop    %rbp", ["read 8 (%rsp)"]),
    ("pop    0x8(%rsp)", ["read 8 (%rsp)", "write 8 0x10(%rsp)"]),
    ("popq   (%rax)", ["read 8 (%rsp)", "write 8 (%rax)"]),
    ("pushf", ["write 8 -0x8(%rsp)"]),
    ("leaveq", ["read 8 (%rbp)"]),
    ("ret", ["read 8 (%rsp)"]),
    ("enter  $0x10,$0x0", ["write 8 -0x8(%rsp)"]),
    # calls and jumps
    ("call   0x401000 <f>", ["write 8 -0x8(%rsp)"]),
    ("call   *0x18(%rax)", ["read 8 0x18(%rax)", "write 8 -0x8(%rsp)"]),
    ("callq  *%rax", ["write 8 -0x8(%rsp)", "execute None (%rax)"]),
    ("bnd jmp *0x2fd5(%rip)        # 0x404018", ["read 8 0x2fd5(%rip)"]),
    ("notrack jmp *%rdx", ["execute None (%rdx)"]),
    # strings
    ("rep stos %al,%es:(%rdi)", ["write 1 %es:(%rdi)"]),
    ("rep movsq %ds:(%rsi),%es:(%rdi)", ["read 8 %ds:(%rsi)", "write 8 %es:(%rdi)"]),
    ("movsl  %ds:(%rsi),%es:(%rdi)", ["read 4 %ds:(%rsi)", "write 4 %es:(%rdi)"]),
    ("repz cmpsb %es:(%rdi),%ds:(%rsi)", ["read 1 %es:(%rdi)", "read 1 %ds:(%rsi)"]),
    ("repnz scas %es:(%rdi),%al", ["read 1 %es:(%rdi)"]),
    ("lods   %ds:(%rsi),%eax", ["read 4 %ds:(%rsi)"]),
    ("insl   (%dx),%es:(%rdi)", ["write 4 %es:(%rdi)"]),
    ("xlat   %ds:(%rbx)", ["read 1 %ds:(%rbx,%al,1)"]),
    # vectors
    ("movaps %xmm0,(%rsp)", ["write 16 (%rsp)"]),
    ("movups (%rax),%xmm0", ["read 16 (%rax)"]),
    ("movsd  (%rax),%xmm0", ["read 8 (%rax)"]),
    ("movss  %xmm0,(%rax)", ["write 4 (%rax)"]),
    ("movq   %xmm0,(%rax)", ["write 8 (%rax)"]),
    ("movhps (%rax),%xmm0", ["read 8 (%rax)"]),
    ("pmaxsd (%rax),%xmm0", ["read 16 (%rax)"]),
    ("addsd  (%rax),%xmm0", ["read 8 (%rax)"]),
    ("cvtsi2sdl (%rax),%xmm0", ["read 4 (%rax)"]),
    ("cvttsd2si (%rax),%ecx", ["read 8 (%rax)"]),
    ("cvtps2pd (%rax),%xmm0", ["read 8 (%rax)"]),
    ("vcvtpd2psy (%rax),%xmm0", ["read 32 (%rax)"]),
    ("pmovzxbd (%rax),%xmm0", ["read 4 (%rax)"]),
    ("pextrb $0x1,%xmm0,(%rax)", ["write 1 (%rax)"]),
    ("vmovdqu64 (%rsi),%zmm16{%k1}{z}", ["read None (%rsi)"]),
    ("vmovdqu %ymm0,(%rdi)", ["write 32 (%rdi)"]),
    ("vextracti128 $0x1,%ymm0,(%rax)", ["write 16 (%rax)"]),
    ("vbroadcastss (%rax),%zmm0", ["read None (%rax)"]),
    ("vaddps (%rax){1to16},%zmm1,%zmm2", ["read None (%rax)"]),
    ("vpsllw (%rax),%ymm1,%ymm2", ["read 16 (%rax)"]),
    ("vgatherdps (%rax,%zmm2,4),%zmm3{%k1}", ["read None (%rax,%zmm2,4)"]),
    ("vpcmpeqb (%rsi),%ymm16,%k0", ["read None (%rsi)"]),
    ("kmovd  %k1,(%rax)", ["write None (%rax)"]),
    ("maskmovdqu %xmm0,%xmm1", ["write 16 (%rdi)"]),
    ("movq   (%rax),%mm0", ["read 8 (%rax)"]),
    # x87 and AVX-512: operand and kind of access are known, the size is not
    ("fldt   0x10(%rsp)", ["read None 0x10(%rsp)"]),
    ("fstpl  (%rax)", ["write None (%rax)"]),
    ("fildll (%rax)", ["read None (%rax)"]),
    ("fmull  (%rax)", ["read None (%rax)"]),
    ("fimull (%rax)", ["read None (%rax)"]),
    ("fistps (%rax)", ["write None (%rax)"]),
    ("fnstcw 0x6(%rsp)", ["write None 0x6(%rsp)"]),
    ("fxsave64 (%rax)", ["write None (%rax)"]),
    ("fxrstor (%rax)", ["read None (%rax)"]),
    ("ldmxcsr (%rax)", ["read 4 (%rax)"]),
    # unknown instructions
    ("frobnicate (%rax),(%rcx)", ["read None (%rax)", "read None (%rcx)"]),
    ("unheardof %eax,(%rcx)", ["read 4 (%rcx)", "write 4 (%rcx)"]),
])
def test_accesses(text: str, expected: list[str]) -> None:
    assert accessed(text) == expected


def test_access_has_the_memory_operand() -> None:
    instruction = one("movzbl 0x10(%rax),%ecx")
    assert instruction.accesses() == (Access("read", MemoryOperand(None, 0x10, "rax"), 1),)
    assert instruction.accesses()[0].operand == instruction.memory


@pytest.mark.parametrize(("text", "aligned"), [
    ("movaps %xmm0,(%rsp)", 16), ("movdqa (%rax),%xmm0", 16), ("movntps %xmm0,(%rax)", 16), ("addps (%rax),%xmm0", 16),
    ("pxor   (%rax),%xmm0", 16), ("paddd  0x10(%rip),%xmm0", 16), ("vmovaps (%rax),%ymm0", 32),
    ("vmovdqa64 %zmm17,0x40(%rdi)", None), ("vmovntdq %ymm0,(%rdi)", 32), ("vmovaps %xmm0,(%rax)", 16),
    ("cmpxchg16b (%rdi)", 16), ("fxsave (%rax)", None), ("xsavec (%rax)", None), ("cvtpd2pi (%rax),%mm0", 16),
    ("movups (%rax),%xmm0", None), ("movdqu %xmm0,(%rax)", None), ("addss  (%rax),%xmm0", None),
    ("movsd  (%rax),%xmm0", None), ("vaddps (%rax),%xmm1,%xmm0", None), ("cvtps2pd (%rax),%xmm0", None),
    ("pcmpistri $0x1a,(%rax),%xmm0", None), ("movhps %xmm0,(%rax)", None), ("pxor   (%rax),%mm0", None),
    ("movaps %xmm0,%xmm1", None), ("mov    (%rax),%rax", None), ("pmovzxbd (%rax),%xmm0", None),
    ("pinsrd $0x1,(%rax),%xmm0", None), ("lddqu  (%rax),%xmm0", None), ("vmovdqu64 %zmm0,(%rax)", None),
])
def test_alignment(text: str, aligned: int | None) -> None:
    assert one(text).alignment == aligned


PLACE = MemoryOperand(None, 0, "rdi")


@pytest.mark.parametrize(("text", "expected"), [
    ("xchg %al,(%rdi)", Exchange("exchanges", PLACE, 1, "rax", "rax", part="al")),
    ("lock cmpxchg %ecx,(%rdi)", Exchange("compares", PLACE, 4, "rcx", "rax", part="ecx")),
    ("lock xadd %rsi,(%rdi)", Exchange("adds", PLACE, 8, "rsi", "rsi", part="rsi")),
    ("lock decl (%rdi)", Exchange("adds", PLACE, 4, added=-1)),
    ("lock incw (%rdi)", Exchange("adds", PLACE, 2, added=1)),
    ("lock subq $0x10,(%rdi)", Exchange("adds", PLACE, 8, added=-16)),
    ("lock add %ecx,(%rdi)", Exchange("computes", PLACE, 4)),
    ("lock orb $0x2,(%rdi)", Exchange("computes", PLACE, 1)),
    ("lock btsl $0x3,(%rdi)", Exchange("computes", PLACE, 4)),
    ("cmpxchg %ecx,(%rdi)", None), ("xadd %ecx,(%rdi)", None), ("decl (%rdi)", None), ("xchg %eax,%ecx", None),
])
def test_exchange(text: str, expected: Exchange | None) -> None:
    assert one(text).exchange == expected


# -- registers -----------------------------------------------------------------------------------------------------

@pytest.mark.parametrize(("text", "written"), [
    ("mov    (%rax),%ecx", "rcx"), ("mov    %ecx,(%rax)", ""), ("add    %rax,%r10", "r10"), ("cmp    %rax,%rbx", ""),
    ("test   %al,%al", ""), ("lea    0x8(%rax),%rdx", "rdx"), ("sete   %ah", "rax"), ("cmovne %rax,%rbx", "rbx"),
    ("push   %rbp", "rsp"), ("pop    %rbp", "rbp rsp"), ("leave", "rbp rsp"), ("ret", "rsp"), ("jmp    *%rax", ""),
    ("jne    0x401000", ""), ("nop", ""), ("endbr64", ""), ("xchg   %rax,%rbx", "rax rbx"), ("xchg   %ax,%ax", ""),
    ("xchg   %rax,(%rbx)", "rax"), ("lock xadd %eax,(%rdi)", "rax"), ("xadd   %eax,%ebx", "rax rbx"),
    ("lock cmpxchg %rdx,(%rdi)", "rax"), ("cmpxchg %rdx,%rbx", "rax rbx"), ("cmpxchg16b (%rdi)", "rax rdx"),
    ("imul   %rcx", "rax rdx"), ("mul    %cl", "rax"), ("imul   %rcx,%rbx", "rbx"), ("idivl  (%rbx)", "rax rdx"),
    ("cqto", "rdx"), ("cltq", "rax"), ("cpuid", "rax rbx rcx rdx"), ("syscall", "r11 rax rcx"),
    ("rdtscp", "rax rcx rdx"),
    ("rep movsq %ds:(%rsi),%es:(%rdi)", "rcx rdi rsi"), ("movsb  %ds:(%rsi),%es:(%rdi)", "rdi rsi"),
    ("rep stos %eax,%es:(%rdi)", "rcx rdi"), ("repnz scas %es:(%rdi),%al", "rcx rdi"),
    ("lods   %ds:(%rsi),%al", "rax rsi"),
    ("mulx   (%rdi),%rax,%rdx", "rax rdx"), ("movq   %xmm0,%rax", "rax"), ("movaps %xmm0,%xmm1", ""),
    ("pcmpistri $0x1a,(%rax),%xmm0", "rcx"), ("cvttsd2si %xmm0,%r8d", "r8"), ("loop   0x401000", "rcx"),
    ("ucomisd %xmm0,%xmm1", ""), ("fnstsw %ax", "rax"), ("shl    %cl,%rdx", "rdx"), ("shr    %rdx", "rdx"),
    ("unheardof %rax,%rbx", "rbx"), ("movsd  (%rax),%xmm0", ""),
    ("call   0x401000", "r10 r11 r8 r9 rax rcx rdi rdx rsi"), ("callq  *%rbx", "r10 r11 r8 r9 rax rcx rdi rdx rsi"),
])
def test_written_registers(text: str, written: str) -> None:
    assert " ".join(sorted(one(text).written)) == written


@pytest.mark.parametrize(("text", "call", "jump", "target", "falls_through"), [
    ("call   0x401030 <malloc@plt>", True, False, 0x401030, True),
    ("callq  0x401030 <_ZN3FooC1Ev+4>", True, False, 0x401030, True),
    ("call   *%rax", True, False, None, True),
    ("call   0x401030 <abort@plt>", True, False, 0x401030, False),
    ("call   0x401030 <__stack_chk_fail@plt>", True, False, 0x401030, False),
    ("call   0x401030 <_ZSt20__throw_length_errorPKc@plt>", True, False, 0x401030, False),
    ("call   0x401030 <std::__throw_length_error(char const*)@plt>", True, False, 0x401030, False),
    ("call   0x401030 <_ZN4core9panicking5panic17h0123456789abcdefE>", True, False, 0x401030, False),
    ("call   0x401030 <_Unwind_Resume@plt>", True, False, 0x401030, False),
    ("call   0x401030 <exit_status>", True, False, 0x401030, True),
    ("call   0x401030 <abort+8>", True, False, 0x401030, True),
    ("jne    0x401030 <f+48>", False, True, 0x401030, True),
    ("jrcxz  0x401030", False, True, 0x401030, True),
    ("bnd jmp 0x401030", False, True, 0x401030, False),
    ("notrack jmp *%rax", False, True, None, False),
    ("repz ret", False, False, None, False),
    ("ud2", False, False, None, False),
    ("hlt", False, False, None, False),
    ("mov    0x401030,%eax", False, False, None, True),
    ("syscall", False, False, None, True),
])
def test_kind_and_target(text: str, call: bool, jump: bool, target: int | None, falls_through: bool) -> None:
    instruction = one(text)
    assert ((instruction.kind == "call", instruction.kind == "jump", instruction.falls_through)
            == (call, jump, falls_through))
    assert instruction.call_target == (target if call else None)
    assert instruction.jump_target == (target if jump else None)
    assert (instruction.kind == "return") == (instruction.mnemonic == "ret")


# -- real code -----------------------------------------------------------------------------------------------------

_ROW = re.compile(r" *([0-9a-f]+):\t([0-9a-f ]+)\t(.+)")
_BRANCH = re.compile(r"((?:^| )(?:j\w+(?:,p[nt])?|loop\w*|call|xbegin)\s+)(?=[0-9a-f])")
# texts of AVX-512 instructions, whose accesses have no known size
_AVX512 = re.compile(r"\{|%zmm|%[xy]mm(?:1[6-9]|[23]\d)|%k\d|v\w+\d\dx\d|vcvt\w*(?:qq|u\w*)")
Row = tuple[int, bytes, str]


def libraries() -> list[Path]:
    """Files with machine code on this machine: C library, C++ library and the interpreter."""
    found: dict[str, Path] = {}
    for pattern in ("libc.so.6", "libstdc++.so.6", "libpython3*.so.1.0", "libm.so.6"):
        for folder in ("/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/usr/lib"):
            for path in sorted(Path(folder).glob(pattern)):
                found.setdefault(pattern, path)
    return [*found.values(), Path(sys.executable).resolve()]


def disassembled(path: Path, most: int) -> Iterator[Row]:
    """(address, bytes, text as GDB prints it) of the first instructions of a file."""
    process = subprocess.Popen(["objdump", "-dw", str(path)], stdout=subprocess.PIPE, text=True, errors="replace")
    assert process.stdout is not None
    try:
        for line in process.stdout:
            match = _ROW.match(line)
            if match is not None:
                # GDB has 0x before addresses
                yield int(match[1], 16), bytes.fromhex(match[2]), _BRANCH.sub(r"\g<1>0x", match[3])
                most -= 1
                if most == 0:
                    return
    finally:
        process.kill()
        process.stdout.close()
        process.wait()


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    """Some 60,000 instructions of real programs; 200,000 in a long run."""
    if shutil.which("objdump") is None:
        pytest.skip("no objdump")
    files = libraries()
    most = 240_000 if combinations.LONG else 72_000
    rows = [row for path in files for row in disassembled(path, most // len(files))]
    if len(rows) < most * 5 // 12 or not any(text.startswith("push   %rbp") for _, _, text in rows[:20_000]):
        pytest.skip("no libraries of x86-64 to disassemble")
    return rows


@pytest.mark.slow
def test_real_code_is_decoded(rows: list[Row]) -> None:
    seen = Counter[str]()
    for address, octets, text in rows:
        instruction = parse(address, len(octets), text)
        assert instruction.mnemonic, text
        if instruction.mnemonic == "(bad)":
            continue
        code = re.sub(r"%st\(\d\)|\(%dx\)", "", instruction.text)
        assert ("(" in code) <= (instruction.memory is not None), text
        assert instruction.memory is None or instruction.memory.text.rstrip(")")[-4:] in code, text
        accesses = instruction.accesses()
        assert all(access.kind in ("read", "write", "execute") for access in accesses)
        written = instruction.written
        assert written <= set(GENERAL), text
        if instruction.kind in ("call", "jump"):
            assert instruction.operands, text
            assert ("*" in code) == (instruction.call_target is None and instruction.jump_target is None), text
        # nearly all instructions change a general register that is their last operand
        last = instruction.operands[-1] if instruction.operands else None
        if isinstance(last, str) and canonical(last) not in written and canonical(last) in GENERAL:
            seen[instruction.mnemonic] += 1
        if any(access.size is None and access.kind != "execute" for access in accesses) and not _AVX512.search(text):
            seen[f"size of {instruction.mnemonic}"] += 1
    unexpected = {name for name in seen if not re.match(
        r"cmp|test|bt|push|call|jmp|nop|xchg|i?div|mul|out|wr[fg]sbase|size of (?:f|x(?:save|rstor)|bt)", name)}
    assert not unexpected, seen


def test_parsing_is_quick(rows: list[Row]) -> None:
    some = rows[len(rows) // 2:][:2000]
    start = time.thread_time()
    parsed = [parse(address, len(octets), text) for address, octets, text in some]
    assert time.thread_time() - start < 0.1, "20 ms, with a margin for a busy machine"
    assert len(parsed) == 2000


# mistakes of capstone 5 according to the Intel SDM: stores whose operand it calls read; operands without a kind of
# access; sizes of the register instead of the memory
_STORES = re.compile(r"v?mov|v?p?maskmov|stos|set|fn?st|fist|v?stmxcsr|v?extract|v?p?extr|vcvtps2ph|v?p?compress"
                     r"|vpmov|v?p?scatter|ro[lr]|rc[lr]|sh[lr]|sa[lr]|cmpxchg")
_NO_KIND = re.compile(r"test|v?p?broadcast|vgetexp|vgetmant|vps[lr][la]v|valign|vcmp|vcvt|round|vpslld|vperm|outs|ins"
                     r"|frstor")
_SIZES_DIFFER = re.compile(r"v?p?(?:gather|scatter)|bt|fx|xsave|xrstor|fn?save|frstor|fldenv|fnstenv|lar|lsl|lcall"
                           r"|ljmp|v?u?comis")


@pytest.mark.slow
def test_operands_and_accesses_agree_with_capstone(rows: list[Row]) -> None:
    capstone = pytest.importorskip("capstone")
    decoder = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
    decoder.detail = True
    is_memory = capstone.x86.X86_OP_MEM
    decoded = compared = 0
    for address, octets, text in rows[::2]:
        instruction = parse(address, len(octets), text)
        other = next(decoder.disasm(octets, address), None)
        if other is None or other.size != len(octets) or instruction.mnemonic == "xlat":
            continue
        decoded += 1

        def name(register: int, other: object = other) -> str | None:
            return str(other.reg_name(register)) if register else None  # type: ignore[attr-defined]

        theirs = []
        for operand in other.operands:
            if operand.type == is_memory:
                index = name(operand.mem.index)
                segment = name(operand.mem.segment)
                theirs.append((MemoryOperand(segment if segment in ("fs", "gs") else None, operand.mem.disp,
                                             name(operand.mem.base), None if index in ("riz", "eiz") else index,
                                             1 if index in (None, "riz", "eiz") else operand.mem.scale),
                               operand.size, operand.access))
        ours = [MemoryOperand(operand.segment if operand.segment in ("fs", "gs") else None, operand.displacement,
                              operand.base, None if operand.index in ("riz", "eiz") else operand.index, operand.scale)
                for operand in instruction.operands if isinstance(operand, MemoryOperand)]
        assert sorted(map(str, ours)) == sorted(str(operand) for operand, _, _ in theirs), text
        if len(ours) != 1 or instruction.mnemonic in ("lea", "pop") or instruction.mnemonic.startswith(("nop", "pref")):
            continue
        accesses = [access for access in instruction.accesses() if access.operand == instruction.memory]
        kinds = {access.kind for access in accesses}
        expected = {kind for bit, kind in ((1, "read"), (2, "write")) if theirs[0][2] & bit}
        if not (_NO_KIND.match(instruction.mnemonic) or _STORES.match(instruction.mnemonic) and expected == {"read"}):
            assert kinds == expected, text
        if not _SIZES_DIFFER.match(instruction.mnemonic):
            sizes = {access.size for access in accesses}
            assert sizes == {theirs[0][1]} or sizes == {None} and (
                instruction.mnemonic.startswith("f") or _AVX512.search(text)), text
        compared += 1
    assert decoded > 0.95 * len(rows) / 2
    assert compared > 0.1 * decoded


@pytest.mark.parametrize(("text", "expected"), [
    ("mov %rdi,%rsi", {"rdi"}), ("mov (%rdi,%rcx,8),%rsi", {"rdi", "rcx"}), ("add %rdi,%rsi", {"rdi", "rsi"}),
    ("mov %edi,%esi", set()), ("sets %dl", set()), ("xor %rdx,%rdx", set()), ("movslq %edi,%rsi", set()),
    ("call *%rdx", {"rdx"}), ("push %rdx", {"rdx"}), ("cmove %rdi,%rsi", {"rdi", "rsi"}), ("mov $0x1,%rsi", set()),
    ("lock cmpxchg %rsi,(%rdi)", {"rsi", "rdi"}),
])
def test_registers_that_are_read_whole(text: str, expected: set[str]) -> None:
    assert parse(0, 4, text).read == expected
