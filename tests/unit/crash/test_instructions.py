from __future__ import annotations

import pytest

from gdbext.inferior.protocol import SignalInfo
from gdbext.inferior.signals import SI_KERNEL, SIGFPE, SIGILL, SIGSYS, SIGTRAP
from gdbext.model import Fault
from gdbext.narrate.reasons import explain
from tests.support.crash_scene import FUNCTION, HEAP, Scene, origins


@pytest.fixture
def scene() -> Scene:
    return Scene()


def division(scene: Scene, *texts: str, code: int = 1, **registers: int) -> Fault:
    pc = scene.code(*texts)
    return scene.read(SignalInfo(SIGFPE, code, pc), None, rip=pc, **registers).fault


def test_division_by_zero(scene: Scene) -> None:
    scene.target.ram.u32(HEAP + 8, 0)
    fault = division(scene, "mov 0x8(%rbx),%ecx", "idiv %ecx", rbx=HEAP, rcx=0xFFFF_FFFF_0000_0000)
    assert (fault.signal, fault.code, fault.kind) == ("SIGFPE", "FPE_INTDIV", "division")
    assert explain(fault.text) == "an integer was divided by 0"
    assert (fault.operands[0].text, fault.operands[0].value) == ("%ecx", 0)
    assert origins(fault) == ["%rcx was read from 0x8(%rbx): %rbx is 0x5000000000, heap"]


def test_division_by_zero_in_memory(scene: Scene) -> None:
    fault = division(scene, "divl 0x8(%rbx)", rbx=HEAP)
    assert explain(fault.text) == "an integer was divided by 0"
    assert (fault.operands[0].text, fault.operands[0].value) == ("0x8(%rbx)", 0)


@pytest.mark.parametrize(("text", "rcx", "shown"), [
    ("idiv %ecx", 0xFFFF_FFFF, -1), ("idiv %rcx", (1 << 64) - 1, -1), ("div %ecx", 0x1_0000_0002, 2),
    ("idiv %cl", 0x5FF, -1), ("div %rcx", (1 << 64) - 1, (1 << 64) - 1)])
def test_quotient_too_large(scene: Scene, text: str, rcx: int, shown: int) -> None:
    fault = division(scene, text, rcx=rcx)
    assert (fault.kind, explain(fault.text)) == (
        "division", f"the quotient of a division by {shown} is too large for its register")


def test_quotient_too_large_with_a_divisor_in_memory(scene: Scene) -> None:
    scene.target.ram.u32(HEAP, 0xFFFFFFFF, 5)
    assert "division by -1 is too large" in explain(division(scene, "idivl (%rbx)", rbx=HEAP).text)


def test_unreadable_divisor(scene: Scene) -> None:
    fault = division(scene, "idivl (%rbx)", rbx=0x1000)
    assert explain(fault.text) == "an integer was divided by 0, or the quotient is too large"


def test_other_arithmetic(scene: Scene) -> None:
    fault = division(scene, "divsd %xmm1,%xmm0", code=3)
    assert fault.kind == "arithmetic"
    assert explain(fault.text).startswith("a floating-point number was divided by 0 in `divsd %xmm1,%xmm0`")
    fault = division(Scene(), "into", code=2)
    assert (fault.kind, explain(fault.text)) == ("arithmetic", "an arithmetic error in `into`")
    fault = Scene().read(SignalInfo(SIGFPE, 1, FUNCTION), rip=FUNCTION).fault
    assert (fault.kind, explain(fault.text), fault.instruction) == ("arithmetic", "an arithmetic error", None)


@pytest.mark.parametrize(("text", "kind", "said"), [
    (None, "illegal-instruction", "are not an instruction (00 00 "), ("ud2", "trap", "trapped (`ud2`)"),
    ("ud1 %eax,%ecx", "trap", "trapped (`ud1 %eax,%ecx`)"),
    ("(bad)", "illegal-instruction", "ran bytes that are not an instruction"),
    ("vaddps %zmm0,%zmm1,%zmm2", "illegal-instruction", "does not have the instruction `vaddps %zmm0,%zmm1,%zmm2`")])
def test_illegal_instructions(scene: Scene, text: str | None, kind: str, said: str) -> None:
    pc = scene.code(text) if text is not None else FUNCTION
    fault = scene.read(SignalInfo(SIGILL, 2, pc), rip=pc).fault
    assert (fault.signal, fault.code, fault.kind) == ("SIGILL", "ILL_ILLOPN", kind)
    assert said in explain(fault.text)


def test_trap(scene: Scene) -> None:
    fault = scene.read(SignalInfo(SIGTRAP, SI_KERNEL, 0)).fault
    assert fault.kind == "trap"
    assert "breakpoint" in explain(fault.text)


def test_seccomp(scene: Scene) -> None:
    fault = scene.read(SignalInfo(SIGSYS, 1, FUNCTION), rax=56).fault
    assert (fault.code, fault.kind, explain(fault.text)) == (
        "SYS_SECCOMP", "seccomp", "system call clone() is forbidden by a seccomp filter")


def test_unknown_instruction_with_the_prefix_of_an_extension(scene: Scene) -> None:
    """The disassembler may be older than the instruction."""
    pc = scene.code("(bad)")
    scene.target.ram.write(pc, bytes.fromhex("66 62 f2 7d 48 c8 c1"))
    fault = scene.read(SignalInfo(SIGILL, 2, pc), rip=pc).fault
    assert explain(fault.text).startswith(
        "the disassembler does not know the instruction 66 62 f2 7d 48 c8 c1 00; its prefix is EVEX: AVX-512 or AVX10")
