from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence

import pytest

from gdbext.arch.x86_64.registers import FRAME
from gdbext.crash.fault import SeenFault
from gdbext.inferior.address_space import Region
from gdbext.inferior.protocol import SignalInfo
from gdbext.inferior.signals import (
    SI_KERNEL,
    SI_TKILL,
    SIGABRT,
    SIGBUS,
    SIGFPE,
    SIGILL,
    SIGSEGV,
    SIGSYS,
    SIGTRAP,
)
from gdbext.model import DERIVED, INFERRED, RECORDED, Fault, Operand
from gdbext.narrate.reasons import explain
from tests.support.crash_scene import (
    ACCERR,
    CALLER,
    FUNCTION,
    HEAP,
    MAPERR,
    MAPPED_FILE,
    OUTERMOST,
    PKUERR,
    STEP,
    Scene,
)
from tests.support.fake_memory import NoiseMemory
from tests.support.fake_target import APP_DATA, DRIVER_TEXT, LIBC_TEXT


@pytest.fixture
def scene() -> Scene:
    return Scene()


def origins(fault: Fault, index: int | None = None) -> list[str]:
    """Where the value of an operand came from; without an index, that of the first which is a register."""
    operand = (next(each for each in fault.operands if each.text.startswith("%")) if index is None
               else fault.operands[index])
    return [explain(each) for each in operand.came_from]


def described(operand: Operand) -> str | None:
    return None if operand.what is None else explain(operand.what)


# -- what the address is -------------------------------------------------------------------------------------------

def test_null_pointer(scene: Scene) -> None:
    fault = scene.segv("mov (%rax),%rdx", address=0)
    assert (fault.kind, explain(fault.text)) == ("null-pointer", "read 8 bytes at 0x0: a null pointer (%rax)")
    assert (fault.signal, fault.code, fault.address, fault.access, fault.size) == (
        "SIGSEGV", "SEGV_MAPERR", 0, "read", 8)
    assert (fault.instruction, fault.pc, fault.evidence, fault.sender) == ("mov (%rax),%rdx", FUNCTION, RECORDED, None)
    assert [(each.text, each.value, described(each)) for each in fault.operands] == [("%rax", 0, "null")]


@pytest.mark.parametrize(("text", "address", "shown"), [
    ("mov %edx,0x18(%rbx)", 0x18, "wrote 4 bytes at 0x18: the member at offset 0x18 of a null pointer (%rbx)"),
    ("movb $0x1,0xfff8(%rbx)", 0xFFF8, "wrote 1 byte at 0xfff8: the member at offset 0xfff8 of a null pointer (%rbx)"),
    ("mov 0x8(%rbx,%rcx,8),%rax", 0x20, "read 8 bytes at 0x20: the member at offset 0x20 of a null pointer (%rbx)"),
])
def test_null_member(scene: Scene, text: str, address: int, shown: str) -> None:
    fault = scene.segv(text, address=address, rcx=3)
    assert (fault.kind, explain(fault.text)) == ("null-member", shown)


def test_null_without_a_register(scene: Scene) -> None:
    fault = scene.segv("mov 0x0,%eax", address=0)
    assert (fault.kind, explain(fault.text)) == ("null-pointer", "read 4 bytes at 0x0: a null pointer")


def test_far_from_null_is_not_called_a_member(scene: Scene) -> None:
    fault = scene.segv("mov (%rbx,%rcx,8),%rax", address=8 * 0x123456, rcx=0x123456)
    assert fault.kind == "unmapped"


def test_small_pointer(scene: Scene) -> None:
    fault = scene.segv("mov 0x8(%rsi),%al", address=0x32, rsi=0x2A)
    assert (fault.kind, explain(fault.text)) == (
        "small-pointer", "read 1 byte at 0x32: at offset 0x8 of %rsi = 0x2a, not an address: 42 is too small")


@pytest.mark.parametrize(("value", "said"), [
    (0xDDDDDDDDDDDDDDDD, "Python's debug allocator leaves it in freed memory"),
    (0xDDDDDDDDDDDDDDDD + 0x20, "Python's debug allocator"), (0xA5A5A5A5A5A5A5A5, "jemalloc")])
def test_pattern(scene: Scene, value: int, said: str) -> None:
    fault = scene.segv("mov 0x10(%rdi),%rax", rdi=value)
    assert fault.kind == "pattern"
    assert fault.address == value + 0x10  # the processor does not tell
    assert explain(fault.text).startswith(f"read 8 bytes at {value + 0x10:#x}: at offset 0x10 of %rdi = {value:#x}, ")
    assert "eight times, a fill pattern" in explain(fault.text)
    register = next(each for each in fault.operands if each.text == "%rdi")
    assert register.what is not None
    assert said in explain(register.what)


def test_pattern_that_is_an_address(scene: Scene) -> None:
    """0x5a5a5a5a5a5a5a5a is canonical in no half, a pattern of the lower half is: it is only not mapped."""
    fault = scene.segv("mov (%rdi),%rax", address=0x5A5A5A5A5A5A, rdi=0x5A5A5A5A5A5A)
    assert fault.kind == "unmapped"


def test_non_canonical(scene: Scene) -> None:
    fault = scene.segv("mov %rax,(%rdi)", rdi=0x1234_5678_9ABC_DEF0)
    assert (fault.kind, explain(fault.text)) == (
        "non-canonical", "wrote 8 bytes at 0x123456789abcdef0: %rdi = 0x123456789abcdef0, not a valid x86-64 "
        "address (not canonical)")
    assert fault.code == "SI_KERNEL"


def test_text_that_was_written_over_a_pointer(scene: Scene) -> None:
    fault = scene.segv("mov (%rdi),%rax", rdi=int.from_bytes(b"/usr/lib", "little"))
    assert fault.kind == "non-canonical"
    assert "as text it reads '/usr/lib'" in explain(fault.text)


def test_non_canonical_by_its_index(scene: Scene) -> None:
    fault = scene.segv("mov (%rdi,%rcx,8),%rax", rdi=HEAP, rcx=1 << 59)
    assert fault.kind == "non-canonical"
    assert f"made of %rdi = {HEAP:#x}" in explain(fault.text)


def test_unmapped(scene: Scene) -> None:
    fault = scene.segv("mov (%rdi),%rax", address=0x7000_1230, rdi=0x7000_1230)
    assert (fault.kind, explain(fault.text)) == ("unmapped", "read 8 bytes at 0x70001230: not mapped")


def test_unmapped_at_that_time(scene: Scene) -> None:
    """What was mapped later, by another thread, does not say that the mapping allowed what failed."""
    fault = scene.segv("mov %rax,(%rdi)", address=HEAP + 0x20, rdi=HEAP + 0x20)
    assert (fault.kind, explain(fault.text)) == (
        "unmapped", f"wrote 8 bytes at {HEAP + 0x20:#x}: nothing was mapped there at that time, though now it is heap")


@pytest.mark.parametrize(("text", "address", "said"), [
    ("mov %rax,(%rdi)", DRIVER_TEXT + 8, "its mapping allows rx (code: in libdrv.so)"),
    ("mov %rax,(%rdi)", HEAP + 0x3008, "its mapping allows r (memory)"),
    ("mov %rax,(%rdi)", HEAP + 0x2800, "its mapping does not allow it (not mapped)"),
])
def test_no_permission(scene: Scene, text: str, address: int, said: str) -> None:
    fault = scene.segv(text, address=address, code=ACCERR, rdi=address)
    assert (fault.kind, explain(fault.text)) == ("no-permission", f"wrote 8 bytes at {address:#x}: {said}")


def test_permission_that_was_given_since(scene: Scene) -> None:
    fault = scene.segv("mov %rax,(%rdi)", address=HEAP + 8, code=ACCERR, rdi=HEAP + 8)
    assert (fault.kind, explain(fault.text)) == (
        "no-permission", f"wrote 8 bytes at {HEAP + 8:#x}: its mapping did not allow it at that time (heap)")


def test_protection_key(scene: Scene) -> None:
    fault = scene.segv("mov (%rdi),%rax", address=HEAP + 8, code=PKUERR, rdi=HEAP + 8)
    assert (fault.kind, explain(fault.text)) == (
        "no-permission", f"read 8 bytes at {HEAP + 8:#x}: a protection key forbids it")


def test_misaligned(scene: Scene) -> None:
    fault = scene.segv("movaps %xmm0,0x8(%rsp)", rsp=scene.stack + 0x100)
    assert (fault.kind, fault.address, fault.size) == ("misaligned", scene.stack + 0x108, 16)
    assert explain(fault.text) == (
        f"wrote 16 bytes at {scene.stack + 0x108:#x}: `movaps` needs an address that is a multiple of 16")


def test_what_is_not_mapped_is_not_misaligned(scene: Scene) -> None:
    fault = scene.segv("movaps %xmm0,(%rdi)", address=0x7000_0008, rdi=0x7000_0008)
    assert fault.kind == "unmapped"


def test_aligned_or_without_the_need(scene: Scene) -> None:
    for text in ("movaps %xmm0,(%rsp)", "movups %xmm0,0x8(%rsp)", "mov %rax,0x1(%rsp)"):
        fault = Scene().segv(text, rsp=scene.stack + 0x100)
        assert (fault.kind, fault.address) == ("general-protection", None)
        assert explain(fault.text) == f"the processor refused the instruction `{text}` (general protection)"


# -- stack overflow ------------------------------------------------------------------------------------------------

def test_stack_overflow_into_its_guard(scene: Scene) -> None:
    fault = scene.segv("push %rbx", address=scene.stack - 8, code=ACCERR, rsp=scene.stack)
    assert (fault.kind, fault.evidence) == ("stack-overflow", DERIVED)
    assert explain(fault.text) == f"wrote 8 bytes at {scene.stack - 8:#x}: the stack is used up, 8 KiB of it"
    assert fault.why is not None
    assert explain(fault.why) == "the address is just below the stack that the thread uses"


def test_stack_overflow_below_which_nothing_is_mapped(scene: Scene) -> None:
    del scene.target.mappings[-2]
    fault = scene.segv("mov %rax,-0x2000(%rsp)", address=scene.stack - 0x2000 + 0x40, rsp=scene.stack + 0x40)
    assert fault.kind == "stack-overflow"


def test_stack_overflow_of_a_large_frame(scene: Scene) -> None:
    """The stack pointer itself may be beyond the guard already."""
    fault = scene.segv("movq $0x0,0x10(%rsp)", address=scene.stack - 0x20000 + 0x10, rsp=scene.stack - 0x20000)
    assert fault.kind == "stack-overflow"


def test_stack_that_grew_when_a_debugger_looked(scene: Scene) -> None:
    """Of a live process the kernel maps what GDB reads below a stack."""
    fault = scene.segv("push %rbx", address=scene.stack + 0xFF8, code=MAPERR, rsp=scene.stack + 0x1000)
    assert (fault.kind, fault.evidence) == ("stack-overflow", DERIVED)
    assert explain(fault.text).endswith("the stack is used up, 4 KiB of it")


@pytest.mark.parametrize(("address", "rsp"), [
    (-0x18, 0x1_8000),  # the stack pointer is far from its end
    (-0x30_0000, 0x100),  # far below it
])
def test_a_fault_below_a_stack_that_is_no_overflow(address: int, rsp: int) -> None:
    scene = Scene()
    scene.target.mappings[-1] = Region(scene.stack, scene.stack + 0x4_0000, "rw", None)
    fault = scene.segv("mov (%rdi),%rax", address=scene.stack + address, rdi=scene.stack + address,
                       rsp=scene.stack + rsp)
    assert fault.kind != "stack-overflow"


def test_a_null_pointer_is_no_overflow_of_a_full_stack(scene: Scene) -> None:
    assert scene.segv("mov (%rdi),%rax", address=0, rsp=scene.stack + 8).kind == "null-pointer"


# -- where the address came from -----------------------------------------------------------------------------------

def test_origin_in_memory(scene: Scene) -> None:
    scene.target.ram.u64(HEAP + 0x108, 0)
    fault = scene.segv("mov 0x8(%rbx),%rax", "mov 0x10(%rax),%rdx", address=0x10, rbx=HEAP + 0x100)
    assert origins(fault) == ["%rax was read from 0x8(%rbx): %rbx is 0x5000000100, heap"]


def test_origins_and_objects_are_a_chain(scene: Scene) -> None:
    scene.target.ram.u64(HEAP + 0x108, HEAP + 0x200)
    scene.target.ram.u64(HEAP + 0x218, 0x10)
    scene.target.name(FUNCTION, "mesh::Cache::find(int)")
    scene.code("mov 0x8(%rdi),%rcx", "mov 0x18(%rcx),%rax")
    pc = scene.code("mov (%rax),%rdx", at=FUNCTION + 2 * STEP)
    scene.target.name(pc, "mesh::Cache::find(int)")
    seen = scene.read(SignalInfo(SIGSEGV, MAPERR, 0x10), rip=pc, rdi=HEAP + 0x100, rcx=HEAP + 0x200, rax=0x10)
    assert [(link.register, link.value, link.base, link.offset) for link in seen.chain] == [
        ("rax", 0x10, HEAP + 0x200, 0x18), ("rcx", HEAP + 0x200, HEAP + 0x100, 8), ("rdi", HEAP + 0x100, None, None)]
    assert explain(seen.chain[2].origin) == "%rdi is `this`, argument 1 of mesh::Cache::find()"
    assert seen.objects == (0x10, HEAP + 0x200, HEAP + 0x100)
    assert seen.code_at == pc


def test_memory_that_has_changed_since(scene: Scene) -> None:
    scene.target.ram.u64(HEAP + 0x108, 0xABC0)
    fault = scene.segv("mov 0x8(%rbx),%rax", "mov (%rax),%rdx", address=0x18, rbx=HEAP + 0x100, rax=0x18)
    assert origins(fault) == ["%rax was read from 0x8(%rbx) (which now contains 0xabc0): %rbx is 0x5000000100, heap"]


@pytest.mark.parametrize(("load", "stored", "value"), [
    ("mov 0x8(%rbx),%eax", 0xFFFF_0000_0000_0018, 0x18), ("movzbl 0x8(%rbx),%eax", 0x7777_7718, 0x18),
    ("movslq 0x8(%rbx),%rax", 0x1234_5678_FFFF_FFF0, 0xFFFF_FFFF_FFFF_FFF0)])
def test_what_lies_behind_a_part_has_not_changed(scene: Scene, load: str, stored: int, value: int) -> None:
    scene.target.ram.u64(HEAP + 0x108, stored)
    fault = scene.segv(load, "mov (%rax),%rdx", address=value, rbx=HEAP + 0x100, rax=value)
    assert "read from 0x8(%rbx)" in origins(fault)[0]
    assert "is now" not in origins(fault)[0]


def test_registers_that_were_used_for_something_else_since(scene: Scene) -> None:
    """The register that a pointer was read through may have another value at the fault."""
    fault = scene.segv("mov 0x8(%rbx),%rax", "add $0x10,%rbx", "mov (%rax),%rdx", address=0, rbx=HEAP + 0x110)
    assert origins(fault) == ["%rax was read from 0x8(%rbx)"]


def test_origin_in_a_variable_of_the_program(scene: Scene) -> None:
    scene.target.ram.u64(APP_DATA + 0x40, 0)
    distance = APP_DATA + 0x40 - (FUNCTION + STEP)
    fault = scene.segv(f"mov {distance:#x}(%rip),%rax  # {APP_DATA + 0x40:#x} <table>", "mov (%rax),%rdx", address=0)
    origin, = origins(fault)
    assert origin.startswith(f"%rax was read from {distance:#x}(%rip)" if distance > 0 else "%rax was read from -0x")
    assert origin.endswith("data: in server")


def test_origin_in_a_call(scene: Scene) -> None:
    scene.target.name(LIBC_TEXT + 0x800, "getenv@@GLIBC_2.2.5")
    fault = scene.segv(f"call {LIBC_TEXT + 0x800:#x} <getenv@plt>", "movzbl (%rax),%edx", address=0)
    assert origins(fault) == ["%rax was returned by getenv()"]
    fault = Scene().segv("call *%rbx", "movzbl (%rax),%edx", address=0)
    assert origins(fault) == ["%rax was returned by `call *%rbx`"]


def test_origin_in_code(scene: Scene) -> None:
    assert origins(scene.segv("xor %eax,%eax", "mov (%rax),%rdx", address=0)) == ["%rax was set by `xor %eax,%eax`"]
    fault = Scene().segv("imul %rcx,%rax", "mov (%rax),%rdx", address=0x30, rax=0x30)
    assert origins(fault) == ["%rax was computed by `imul %rcx,%rax`"]


def test_origin_that_only_one_way_has(scene: Scene) -> None:
    """Two ways lead to the instruction: what the code before it says may not be what happened."""
    fault = scene.segv(f"je {FUNCTION + 2 * STEP:#x}", "xor %eax,%eax", "mov (%rax),%rdx", address=0)
    assert origins(fault) == ["%rax was set by `xor %eax,%eax`, unless the program jumped past that"]


def test_memory_confirms_an_uncertain_origin(scene: Scene) -> None:
    scene.target.ram.u64(HEAP + 8, 0x18)
    fault = scene.segv(f"je {FUNCTION + 2 * STEP:#x}", "mov 0x8(%rbx),%rax", "mov (%rax),%rdx", address=0x18, rbx=HEAP,
                       rax=0x18)
    assert origins(fault) == ["%rax was read from 0x8(%rbx): %rbx is 0x5000000000, heap"]


def test_origin_that_nothing_tells(scene: Scene) -> None:
    """No argument is passed in rbx."""
    fault = scene.segv("mov (%rbx),%rdx", address=0)
    assert origins(fault) == []


def test_index_and_base_are_both_told(scene: Scene) -> None:
    fault = scene.segv("movslq 0x10(%rbx),%rcx", "mov (%rdi,%rcx,8),%rax", address=HEAP + 0x2000, rbx=HEAP, rdi=HEAP,
                       rcx=0x400)
    assert fault.kind == "unmapped"
    assert [(each.text, each.value) for each in fault.operands] == [
        ("(%rdi,%rcx,8)", HEAP + 0x2000), ("%rdi", HEAP), ("%rcx", 0x400)]
    # that an index is no address says nothing about the sum
    assert described(fault.operands[0]) == "not mapped"
    assert origins(fault, 1) == ["%rdi is argument 1 of a function of libdrv.so"]
    assert origins(fault, 2)[0].startswith("%rcx was read from 0x10(%rbx)")


def test_origin_in_a_caller(scene: Scene) -> None:
    scene.target.name(CALLER + 2 * STEP - 1, "draw_all")
    scene.target.ram.u64(HEAP + 0x310, 0)
    scene.called_by(1, CALLER, "mov 0x10(%rbx),%rdi", f"call {FUNCTION:#x}", rbx=HEAP + 0x300)
    fault = scene.segv("mov 0x20(%rdi),%rax", address=0x20)
    assert origins(fault) == ["%rdi is argument 1 of a function of libdrv.so",
                              "in draw_all(): %rdi was read from 0x10(%rbx): %rbx is 0x5000000300, heap"]


def test_origin_in_a_caller_of_a_caller(scene: Scene) -> None:
    scene.called_by(1, CALLER, "mov %rsi,%rdi", f"call {FUNCTION:#x}")
    scene.called_by(2, OUTERMOST, "xor %esi,%esi", f"call {CALLER:#x}")
    fault = scene.segv("mov 0x20(%rdi),%rax", address=0x20)
    assert origins(fault) == [
        "%rdi is argument 1 of a function of libdrv.so", "in a function of server: %rdi is argument 2 of a function of "
        "server", "in a function of server: %rsi was set by `xor %esi,%esi`"]


def test_frames_that_the_debugger_sees_otherwise(scene: Scene) -> None:
    scene.called_by(1, CALLER, "xor %edi,%edi", f"call {FUNCTION:#x}")
    scene.target.older_registers[1, 1]["rsp"] += 8
    fault = scene.segv("mov 0x20(%rdi),%rax", address=0x20)
    assert origins(fault) == ["%rdi is argument 1 of a function of libdrv.so"]


def test_an_argument_that_is_not_sure_is_not_looked_for_in_callers(scene: Scene) -> None:
    """A computed jump may lead to the instruction from anywhere."""
    scene.called_by(1, CALLER, "xor %edi,%edi", f"call {FUNCTION:#x}")
    fault = scene.segv(f"je {FUNCTION + 2 * STEP:#x}", "jmp *%rax", "mov 0x20(%rdi),%rax", address=0x20)
    assert origins(fault) == ["%rdi is argument 1 of a function of libdrv.so, unless the program jumped past that"]


def test_callers_are_bounded(scene: Scene) -> None:
    for depth in range(1, 12):
        scene.called_by(depth, CALLER if depth == 1 else OUTERMOST, "nop", f"call {CALLER:#x}")
    fault = scene.segv("mov 0x20(%rdi),%rax", address=0x20)
    assert len(origins(fault)) == 5


# -- calls of what is no code --------------------------------------------------------------------------------------

def called(scene: Scene, pc: int, *texts: str, code: int = MAPERR, **registers: int) -> SeenFault:
    """Run at `pc` after the call that ends a function."""
    after = scene.code(*texts) + STEP
    scene.target.ram.u64(scene.registers["rsp"], after)
    return scene.read(SignalInfo(SIGSEGV, code, pc), "execute", rip=pc, **registers)


def test_null_call(scene: Scene) -> None:
    seen = called(scene, 0, "mov 0x28(%rbx),%rax", "call *%rax", rbx=HEAP)
    fault = seen.fault
    assert (fault.kind, explain(fault.text)) == ("null-call", "called a null function pointer")
    assert (fault.address, fault.access, fault.instruction, fault.pc) == (0, "execute", "call *%rax", 0)
    assert [(each.text, each.value) for each in fault.operands] == [("%rax", 0)]
    assert origins(fault) == ["%rax was read from 0x28(%rbx): %rbx is 0x5000000000, heap"]
    assert seen.code_at == FUNCTION + STEP
    assert seen.objects == (HEAP,)


def test_null_in_a_table_of_functions(scene: Scene) -> None:
    fault = called(scene, 0, "call *0x18(%rdi)", rdi=HEAP).fault
    assert fault.kind == "null-call"
    assert (fault.operands[0].text, fault.operands[0].value) == ("0x18(%rdi)", HEAP + 0x18)
    assert described(fault.operands[0]) == "heap, which contains 0x0"


@pytest.mark.parametrize(("pc", "kind", "text"), [
    (0xDDDDDDDDDDDDDDDD, "pattern", "called a function at 0xdddddddddddddddd: the byte 0xdd eight times, a fill"),
    (0x1234, "execute-data", "called a function at 0x1234: not an address: 4660 is too small"),
    (0x7000_0000, "execute-data", "called a function at 0x70000000: not mapped"),
    (HEAP + 0x10, "execute-data", "ran code at 0x5000000010: heap, which is not executable"),
])
def test_what_is_no_code(scene: Scene, pc: int, kind: str, text: str) -> None:
    code = SI_KERNEL if pc >> 47 else ACCERR if pc == HEAP + 0x10 else MAPERR
    fault = called(scene, pc, "call *%rax", code=code, rax=pc).fault
    assert fault.kind == kind
    assert explain(fault.text).startswith(text)
    assert fault.access == "execute"
    assert fault.instruction == "call *%rax"


def test_what_is_no_code_without_a_call(scene: Scene) -> None:
    """A jump, or a return to an address that was written over: nothing tells where from."""
    scene.target.ram.u64(scene.registers["rsp"], HEAP)
    fault = scene.read(SignalInfo(SIGSEGV, MAPERR, 0x1234), rip=0x1234).fault
    assert (fault.kind, fault.instruction, fault.operands) == ("execute-data", None, ())
    scene.target.ram.u64(scene.registers["rsp"], FUNCTION + 0x20)  # in a function, but behind no call
    fault = scene.read(SignalInfo(SIGSEGV, MAPERR, 0), rip=0).fault
    assert (fault.kind, fault.instruction) == ("null-call", None)


def test_code_that_cannot_be_read(scene: Scene) -> None:
    """Its file is missing, or what is there is no code: the address alone tells what it tells."""
    scene.target.mappings.append(Region(0x7D80_0000_0000, 0x7D80_0000_1000, "rx", "/app/lost.so"))

    def fault(address: int, code: int = MAPERR, access: str | None = None, rsp: int = scene.stack + 0x100) -> Fault:
        found = scene.read(SignalInfo(SIGSEGV, code, address), access, rip=0x7D80_0000_0100, rsp=rsp).fault
        assert (found.instruction, found.operands, found.access) == (None, (), access)
        assert "the instruction cannot be read" in explain(found.text)
        return found

    null = fault(0, access="write")
    assert null.kind == "null-pointer"
    assert explain(null.text).startswith("wrote memory at 0x0 (")
    assert (fault(0x18).kind, fault(0x18).evidence) == ("null-member", INFERRED)
    assert fault(0x7000_0000).kind == "unmapped"
    readable = fault(HEAP + 0x3008, ACCERR)
    assert readable.kind == "no-permission"
    assert "its mapping allows r (" in explain(readable.text)  # it may have been written to
    assert fault(scene.stack - 0x20, ACCERR, rsp=scene.stack + 8).kind == "stack-overflow"
    assert fault(0, SI_KERNEL).address is None


# -- the other signals ---------------------------------------------------------------------------------------------

def bus_error(scene: Scene, code: int, address: int) -> Fault:
    pc = scene.code("mov (%rdi),%rax")
    return scene.read(SignalInfo(SIGBUS, code, address), rip=pc, rdi=address).fault


def test_file_that_was_truncated(scene: Scene) -> None:
    fault = bus_error(scene, 2, MAPPED_FILE + 0x2010)
    assert (fault.signal, fault.code, fault.kind) == ("SIGBUS", "BUS_ADRERR", "truncated-file")
    assert explain(fault.text) == (
        "read 8 bytes at 0x602010: byte 0x3010 of /data/table, which is mapped, but the file ends before it (it was "
        "truncated, or its disk is full)")


@pytest.mark.parametrize("address", [HEAP, HEAP + 0x3010, 0x7000_0000])
def test_no_memory_behind(scene: Scene, address: int) -> None:
    fault = bus_error(scene, 2, address)
    assert fault.kind == "no-memory-behind"
    assert "truncated" not in explain(fault.text)


def test_huge_pages_are_no_file(scene: Scene) -> None:
    scene.target.mappings.append(Region(0x7000_0000, 0x7020_0000, "rw", "/anon_hugepage (deleted)"))
    assert bus_error(scene, 2, 0x7000_0000).kind == "no-memory-behind"


def test_bus_errors_of_other_kinds(scene: Scene) -> None:
    assert bus_error(scene, 1, HEAP + 1).kind == "misaligned"
    fault = bus_error(Scene(), 4, HEAP)
    assert (fault.kind, explain(fault.text)) == ("hardware", f"read 8 bytes at {HEAP:#x}: memory is faulty (hardware)")


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
def test_quotient_that_is_too_large(scene: Scene, text: str, rcx: int, shown: int) -> None:
    fault = division(scene, text, rcx=rcx)
    assert (fault.kind, explain(fault.text)) == (
        "division", f"the quotient of a division by {shown} is too large for its register")


def test_quotient_by_memory_that_is_too_large(scene: Scene) -> None:
    scene.target.ram.u32(HEAP, 0xFFFFFFFF, 5)
    assert "division by -1 is too large" in explain(division(scene, "idivl (%rbx)", rbx=HEAP).text)


def test_divisor_that_cannot_be_read(scene: Scene) -> None:
    fault = division(scene, "idivl (%rbx)", rbx=0x1000)
    assert explain(fault.text) == "an integer was divided by 0, or the quotient is too large"


def test_other_arithmetic(scene: Scene) -> None:
    fault = division(scene, "divsd %xmm1,%xmm0", code=3)
    assert (fault.kind, explain(fault.text)) == ("arithmetic", "an arithmetic error in `divsd %xmm1,%xmm0`")
    fault = Scene().read(SignalInfo(SIGFPE, 1, FUNCTION), rip=FUNCTION).fault
    assert (fault.kind, explain(fault.text), fault.instruction) == ("arithmetic", "an arithmetic error", None)


@pytest.mark.parametrize(("text", "kind", "said"), [
    (None, "illegal-instruction", "which cannot be read"), ("ud2", "trap", "trapped (`ud2`)"),
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
    assert "int3" in explain(fault.text)


def test_seccomp(scene: Scene) -> None:
    fault = scene.read(SignalInfo(SIGSYS, 1, FUNCTION), rax=56).fault
    assert (fault.code, fault.kind, explain(fault.text)) == (
        "SYS_SECCOMP", "seccomp", "system call 56 is forbidden by a seccomp filter")


def test_abort(scene: Scene) -> None:
    fault = scene.read(SignalInfo(SIGABRT, SI_TKILL, None, 100, 1000)).fault
    assert (fault.kind, explain(fault.text), fault.sender) == ("abort", "the program called abort()", None)


@pytest.mark.parametrize("number", [SIGSEGV, SIGABRT, SIGBUS, 3])
def test_signals_that_were_sent(scene: Scene, number: int) -> None:
    """The instruction that ran is not at fault, whatever it is."""
    pc = scene.code("mov (%rax),%rdx")
    fault = scene.read(SignalInfo(number, 0, None, 4242, 1000), rip=pc).fault
    assert (fault.kind, fault.sender, fault.instruction, fault.address) == ("sent", (4242, 1000), None, None)
    assert f"{fault.signal} was sent by process 4242: the code that ran is not at fault" == explain(fault.text)


def test_who_sent_it_is_not_recorded(scene: Scene) -> None:
    fault = scene.read(SignalInfo(SIGSEGV, SI_TKILL, None)).fault
    assert (fault.kind, explain(fault.text), fault.sender) == (
        "sent", "SIGSEGV was sent; by which process is not recorded", None)


def test_signals_without_a_name(scene: Scene) -> None:
    fault = scene.read(SignalInfo(24, 1, 0)).fault
    assert (fault.signal, fault.code, fault.kind) == ("SIGXCPU", None, "unknown")
    assert scene.read(SignalInfo(40, 1, 0)).fault.signal == "signal 40"


# -- hostile targets -----------------------------------------------------------------------------------------------

TEXTS = ("mov (%rax),%rdx", "mov %edx,0x18(%rbx,%rcx,8)", "call *%rax", "call *0x8(%rdi)", "idivl (%rbx)", "div %ah",
         "rep movsb %ds:(%rsi),%es:(%rdi)", "movaps %xmm0,(%rdi)", "push %rbx", "ret", "(bad)", "", "mov %fs:0x28,%rax",
         "ud2", "vgatherdps %ymm1,(%rax,%ymm2,4),%ymm0", "lock cmpxchg %rcx,(%rdx)", "leave", "pop %rdi", "jmp *(%rax)",
         "lea 0x8(%rdi),%rax", "xchg %rax,(%rdi)", "data16 cs nopw 0x0(%rax,%rax,1)", ".byte 0x62",
         "mov (%riz,%riz,8),%eax")


@pytest.mark.parametrize("seed", range(30))
def test_any_registers_and_memory_can_be_explained(seed: int) -> None:
    chooser = random.Random(seed)
    scene = Scene()
    scene.target.memory = NoiseMemory(seed)
    texts = [chooser.choice(TEXTS) for _ in range(30)]
    for depth in range(1, 6):
        scene.called_by(depth, OUTERMOST, *texts[:depth], "call *%rdi")

    def value() -> int:
        return chooser.choice((0, 8, HEAP, FUNCTION, scene.stack, chooser.getrandbits(47), chooser.getrandbits(64)))

    scene.code(*texts)
    start = time.process_time()
    for index in range(30):
        for number, code in ((SIGSEGV, MAPERR), (SIGSEGV, SI_KERNEL), (SIGBUS, 2), (SIGFPE, 1), (SIGILL, 2)):
            registers = {name: value() for name in FRAME}
            if chooser.randrange(4):
                registers["rip"] = FUNCTION + STEP * index
            fault = scene.read(SignalInfo(number, code, value()), None, **registers).fault
            assert explain(fault.text)
            assert fault.kind
    assert time.process_time() - start < 20


def test_a_function_without_end(scene: Scene) -> None:
    """A loop of moves ends, however long."""
    texts = ["mov %rax,%rdi", "mov %rdi,%rax", f"jmp {FUNCTION:#x}"]
    scene.code(*texts)
    start = time.process_time()
    fault = scene.read(SignalInfo(SIGSEGV, MAPERR, 0), rip=scene.code("mov (%rax),%rdx", at=FUNCTION + 3 * STEP)).fault
    assert fault.kind == "null-pointer"
    assert time.process_time() - start < 2


def known(registers: Mapping[str, int], names: Sequence[str]) -> dict[str, int]:
    return {name: registers[name] for name in names}


def test_registers_are_told(scene: Scene) -> None:
    fault = scene.segv("mov (%rax),%rdx", address=0, rcx=5)
    assert known(fault.registers, ("rax", "rcx", "rip")) == {"rax": 0, "rcx": 5, "rip": FUNCTION}
