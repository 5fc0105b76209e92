"""The summary of a function is what its callers see of it."""

from __future__ import annotations

import pytest

from gdbext.proofs.flow.state import entry
from tests.support.flow_program import ARGUMENT, KEEP, Program


@pytest.mark.parametrize("wrapper", [
    "call acquire\nret", "jmp acquire",
    "push %rbp\nmov %rdi,%rbp\ncall acquire\npop %rbp\nret",
], ids=["calls", "jumps", "keeps"])
def test_wrapper_acquires(wrapper: str) -> None:
    program = Program(f=f"{KEEP}\ncall wrapper\nhere: call other\nret", wrapper=wrapper)
    assert program.held() == ARGUMENT


def test_wrapper_that_acquires_on_one_way_does_not() -> None:
    program = Program(f=f"{KEEP}\ncall wrapper\nhere: call other\nret",
                      wrapper="test %esi,%esi\nje out\njmp acquire\nout: ret")
    assert program.held() == set()


def test_attempt_of_a_helper_counts() -> None:
    program = Program(f=f"{KEEP}\ncall helper\ntest %eax,%eax\njne skip\nhere: call other\nskip: pop %rbx\nret",
                      helper="lea 0x8(%rdi),%rdi\njmp try")
    assert program.held() == {entry("rdi").plus(8)}


def test_function_that_returns_a_constant_decides_a_branch() -> None:
    lines = ("{0}\ncall active\ntest %eax,%eax\nsetne %al\ntest %al,%al\nje skip\nmov %rbx,%rdi\ncall acquire\n"
             "skip: nop\n")
    program = Program(f=lines.format(KEEP) + "here: call other\nret", active="mov $0x1,%eax\nret")
    assert program.held() == ARGUMENT
    program = Program(f=lines.format(KEEP) + "here: call other\nret", active="mov %esi,%eax\nret")
    assert program.held() == set()
