from __future__ import annotations

import time

import pytest

from gdbext.inferior.protocol import SignalInfo
from gdbext.inferior.signals import SIGSEGV
from gdbext.narrate.reasons import explain
from tests.support.crash_scene import (
    CALLER,
    FUNCTION,
    HEAP,
    MAPERR,
    OUTERMOST,
    STEP,
    Scene,
    described,
    origins,
)
from tests.support.fake_target import APP_DATA, LIBC_TEXT


@pytest.fixture
def scene() -> Scene:
    return Scene()


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


def test_origin_in_memory_that_changed_shows_the_new_value(scene: Scene) -> None:
    scene.target.ram.u64(HEAP + 0x108, 0xABC0)
    fault = scene.segv("mov 0x8(%rbx),%rax", "mov (%rax),%rdx", address=0x18, rbx=HEAP + 0x100, rax=0x18)
    assert origins(fault) == ["%rax was read from 0x8(%rbx) (which now contains 0xabc0): %rbx is 0x5000000100, heap"]


@pytest.mark.parametrize(("load", "stored", "value"), [
    ("mov 0x8(%rbx),%eax", 0xFFFF_0000_0000_0018, 0x18), ("movzbl 0x8(%rbx),%eax", 0x7777_7718, 0x18),
    ("movslq 0x8(%rbx),%rax", 0x1234_5678_FFFF_FFF0, 0xFFFF_FFFF_FFFF_FFF0)])
def test_origin_of_a_partial_load_compares_only_its_bytes(scene: Scene, load: str, stored: int, value: int) -> None:
    scene.target.ram.u64(HEAP + 0x108, stored)
    fault = scene.segv(load, "mov (%rax),%rdx", address=value, rbx=HEAP + 0x100, rax=value)
    assert "read from 0x8(%rbx)" in origins(fault)[0]
    assert "now contains" not in origins(fault)[0]


def test_origin_with_an_overwritten_base_register_has_no_address(scene: Scene) -> None:
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


def test_origin_on_one_of_two_paths_is_uncertain(scene: Scene) -> None:
    """Two paths lead to the instruction, so the origin in the code before it is uncertain."""
    fault = scene.segv(f"je {FUNCTION + 2 * STEP:#x}", "xor %eax,%eax", "mov (%rax),%rdx", address=0)
    assert origins(fault) == ["%rax was set by `xor %eax,%eax`, unless the program jumped past that"]


def test_memory_confirms_an_uncertain_origin(scene: Scene) -> None:
    scene.target.ram.u64(HEAP + 8, 0x18)
    fault = scene.segv(f"je {FUNCTION + 2 * STEP:#x}", "mov 0x8(%rbx),%rax", "mov (%rax),%rdx", address=0x18, rbx=HEAP,
                       rax=0x18)
    assert origins(fault) == ["%rax was read from 0x8(%rbx): %rbx is 0x5000000000, heap"]


def test_origin_in_a_register_that_passes_no_argument_is_unknown(scene: Scene) -> None:
    """No argument is passed in rbx."""
    fault = scene.segv("mov (%rbx),%rdx", address=0)
    assert origins(fault) == []


def test_operands_have_the_base_and_the_index(scene: Scene) -> None:
    fault = scene.segv("movslq 0x10(%rbx),%rcx", "mov (%rdi,%rcx,8),%rax", address=HEAP + 0x2000, rbx=HEAP, rdi=HEAP,
                       rcx=0x400)
    assert fault.kind == "unmapped"
    assert [(each.text, each.value) for each in fault.operands] == [
        ("(%rdi,%rcx,8)", HEAP + 0x2000), ("%rdi", HEAP), ("%rcx", 0x400)]
    # an index that is not an address says nothing about the sum
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


def test_origin_when_the_debugger_unwinds_differently_stops(scene: Scene) -> None:
    scene.called_by(1, CALLER, "xor %edi,%edi", f"call {FUNCTION:#x}")
    scene.target.older_registers[1, 1]["rsp"] += 8
    fault = scene.segv("mov 0x20(%rdi),%rax", address=0x20)
    assert origins(fault) == ["%rdi is argument 1 of a function of libdrv.so"]


def test_uncertain_argument_is_not_followed_to_callers(scene: Scene) -> None:
    """A computed jump may lead to the instruction from anywhere."""
    scene.called_by(1, CALLER, "xor %edi,%edi", f"call {FUNCTION:#x}")
    fault = scene.segv(f"je {FUNCTION + 2 * STEP:#x}", "jmp *%rax", "mov 0x20(%rdi),%rax", address=0x20)
    assert origins(fault) == ["%rdi is argument 1 of a function of libdrv.so, unless the program jumped past that"]


def test_origins_follow_a_bounded_number_of_callers(scene: Scene) -> None:
    for depth in range(1, 12):
        scene.called_by(depth, CALLER if depth == 1 else OUTERMOST, "nop", f"call {CALLER:#x}")
    fault = scene.segv("mov 0x20(%rdi),%rax", address=0x20)
    assert len(origins(fault)) == 5


def test_origin_in_a_long_loop_of_moves_ends(scene: Scene) -> None:
    """Following a loop of moves ends."""
    texts = ["mov %rax,%rdi", "mov %rdi,%rax", f"jmp {FUNCTION:#x}"]
    scene.code(*texts)
    start = time.process_time()
    fault = scene.read(SignalInfo(SIGSEGV, MAPERR, 0), rip=scene.code("mov (%rax),%rdx", at=FUNCTION + 3 * STEP)).fault
    assert fault.kind == "null-pointer"
    assert time.process_time() - start < 2
