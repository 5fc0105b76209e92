"""Functions that call none that acquires or releases are not analysed."""

from __future__ import annotations

import pytest

from tests.support.flow_program import ARGUMENT, FUNCTION, KEEP, LINKS, RELEASE, STEP, TEXT, Program


@pytest.mark.parametrize("code", ["nop\nhere: call other\nret", "mov (%rdi),%rdi\nhere: jmp *%rax"])
def test_function_that_calls_nothing_of_interest_is_not_analysed(code: str) -> None:
    assert Program(f=code).state() is None


def test_function_that_releases_through_a_register_only_is_examined() -> None:
    program = Program(f=f"{KEEP}\ncall acquire\ncall helper\nhere: call other\nret",
                      helper=f"mov {LINKS - TEXT - FUNCTION - STEP:#x}(%rip),%rbp\ncall *%rbp\nret")
    program.memory.u64(LINKS, RELEASE)
    at = program.starts["helper"]
    program.memory.write(at, b"\x48\x8b\x2d" + (LINKS - at - 7).to_bytes(4, "little"))
    assert program.held() == set()


@pytest.mark.parametrize(("call", "opcode"), [("call *{0:#x}(%rip)", b"\xff\x15"),
                                              ("mov {0:#x}(%rip),%rbp", b"\x48\x8b\x2d")])
@pytest.mark.parametrize("is_releasing", [True, False])
def test_helper_that_has_a_function_of_another_file_release(call: str, opcode: bytes, is_releasing: bool) -> None:
    """It calls the function through a slot, so that its own code names no function that releases."""
    later = "call *%rbp\n" if "mov" in call else ""
    program = Program(f=f"{KEEP}\ncall acquire\nmov %rbx,%rdi\ncall helper\nhere: call other\nret",
                      helper=f"{call.format(0)}\n{later}nop\nnop\nnop\nnop\nret",
                      elsewhere="call release\nret" if is_releasing else "call other\nret")
    at, size = program.starts["helper"], len(opcode) + 4
    program.lines[at] = call.format(LINKS - at - STEP)
    program.memory.write(at, opcode + (LINKS - at - size & 0xFFFFFFFF).to_bytes(4, "little"))
    program.memory.u64(LINKS, program.starts["elsewhere"])
    assert program.held() == (set() if is_releasing else ARGUMENT)
